/* cuda_rng.cuh - counter-based random numbers, Philox 4x32-10: the words of base/rng.h, bit for bit. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_RNG_CUH
#define RT_BACKEND_CUDA_KERNELS_CUDA_RNG_CUH

#include "backend/cuda/kernels/cuda_begin.cuh"

#include <stdint.h>

struct Random {
    uint32_t v[4];
};

RT_DEVICE Random philox(uint64_t seed, uint64_t stream, uint64_t index)
{
    Random c = { { (uint32_t)index, (uint32_t)(index >> 32), (uint32_t)stream, (uint32_t)(stream >> 32) } };
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
#pragma unroll
    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)0xD2511F53u * c.v[0], p1 = (uint64_t)0xCD9E8D57u * c.v[2];
        const uint32_t n0 = (uint32_t)(p1 >> 32) ^ c.v[1] ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c.v[3] ^ k1;
        c.v[1] = (uint32_t)p1;
        c.v[3] = (uint32_t)p0;
        c.v[0] = n0;
        c.v[2] = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return c;
}

#endif
