/* planted.cu - one fault for each tool of compute-sanitizer, by the tool's name: sanitize.py must hear of all four. */
#include <cstdio>
#include <cstring>

__global__ void outside(float *x) { x[1 << 20] = 1.0f; }

__global__ void race(float *x)
{
    __shared__ float cell[64];
    cell[threadIdx.x] = (float)threadIdx.x;
    x[threadIdx.x] = cell[63 - threadIdx.x]; /* without a barrier, of another warp */
}

__global__ void unwritten(float *x) { x[0] = x[1] + x[2]; }

__global__ void divergent(float *x)
{
    if (threadIdx.x < 16) __syncthreads();
    x[threadIdx.x] = 1.0f;
}

int main(int argc, char **argv)
{
    const char *tool = argc > 1 ? argv[1] : "";
    float *x = nullptr;
    if (cudaMalloc(&x, 256) != cudaSuccess) return 1;
    if (strcmp(tool, "memcheck") == 0) outside<<<1, 1>>>(x);
    if (strcmp(tool, "racecheck") == 0) race<<<1, 64>>>(x);
    if (strcmp(tool, "initcheck") == 0) unwritten<<<1, 1>>>(x);
    if (strcmp(tool, "synccheck") == 0) divergent<<<1, 32>>>(x);
    printf("%s: %s\n", tool, cudaGetErrorString(cudaDeviceSynchronize()));
    return 0;
}
