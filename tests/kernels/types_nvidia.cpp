// SPDX-License-Identifier: Apache-2.0
/* types_nvidia.cpp: the conversions of the toolkit's header, as it defines them for the host. */
#include <cstdint>
#include <cstring>
#include <cuda_bf16.h>

uint16_t nvidia_to_bf16(float f)
{
    __nv_bfloat16 h = __float2bfloat16_rn(f);
    uint16_t u;
    memcpy(&u, &h, 2);
    return u;
}

float nvidia_to_f32(uint16_t u)
{
    __nv_bfloat16 h;
    memcpy((void *)&h, &u, 2);
    return __bfloat162float(h);
}
