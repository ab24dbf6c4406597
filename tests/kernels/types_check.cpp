// SPDX-License-Identifier: Apache-2.0
/* types_check.cpp: the emulator's bf16 conversions against the toolkit's, which types_nvidia.cpp
 * wraps: every bf16, and one float in STEP (argv[1]). */
#include "cuda_emu.h"

uint16_t nvidia_to_bf16(float f);
float nvidia_to_f32(uint16_t h);

int main(int argc, char **argv)
{
    unsigned long step = argc > 1 ? strtoul(argv[1], nullptr, 10) : 1, bad = 0;
    for (unsigned long u = 0; u < 1ul << 32; u += step) {
        float f = __uint_as_float((unsigned)u);
        bad += __float2bfloat16_rn(f).x != nvidia_to_bf16(f);
    }
    for (unsigned u = 0; u < 65536; u++) {
        float a = __bfloat162float({(uint16_t)u}), b = nvidia_to_f32((uint16_t)u);
        bad += memcmp(&a, &b, 4) != 0;
    }
    if (bad)
        printf("%lu values are converted otherwise than by cuda_bf16.h\n", bad);
    return bad != 0;
}
