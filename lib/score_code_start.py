# SPDX-License-Identifier: Apache-2.0
# Before each of the other programs: what the site module would do, for a fifth of its time.
import builtins, sys


def leave(code=None):
    raise SystemExit(code)


builtins.exit = builtins.quit = leave
sys.path += [p % sys.version_info[:2] for p in (
    "/usr/local/lib/python%d.%d/site-packages", "/usr/local/lib/python%d.%d/dist-packages",
    "/usr/lib/python%d.%d/site-packages")] + ["/usr/lib/python3/dist-packages"]
