/* SPDX-License-Identifier: Apache-2.0 */
/* raise() takes 300 ms. Preloaded, it keeps a program that dies of a signal in its handler for so
 * long, and shows what its other threads do meanwhile. */
#include <dlfcn.h>
#include <poll.h>
#include <signal.h>

int raise(int sig)
{
    int (*real)(int) = (int (*)(int))(void *)dlsym(RTLD_NEXT, "raise");
    poll(NULL, 0, 300);
    return real(sig);
}
