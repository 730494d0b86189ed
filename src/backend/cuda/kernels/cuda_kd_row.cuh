/* cuda_kd_row.cuh - what the walks of kd_loss over a row stand on: powers of two, a block's slice of the row, the sums
 * and constants that a row has.
 *
 * Owns: references and factors, how packs of the next row come while this one is done, how the warps of a row tell each
 * other. How a row is done is in cuda_kd.cu, which also says how references work. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_KD_ROW_CUH
#define RT_BACKEND_CUDA_KERNELS_CUDA_KD_ROW_CUH

#include "backend/cuda/kernels/cuda_kd_terms.cuh"

namespace
{
constexpr int W = RT_CUDA_KD_PACK;
constexpr float LOG2E = 0x1.715476p+0f, NO_K = -1e30f;

/* ---- powers of two ---- */

/* 2^(c x - k), k an integer, for a power of at most 2^126; never below 2^-126. By a polynomial, 1.2e-7 off: the integer
 * part n of the power is taken off before anything is rounded. */
RT_DEVICE float exp2_poly(float x, float c, float k)
{
    const float magic = 0x1.8p23f; /* adding it rounds to an integer in the low mantissa bits */
    const float a = fmaf(x, c, -k), t = fmaxf(a, -126.0f) + magic, n = t - magic;
    const float r = a > -126.0f ? fmaf(x, c, -(k + n)) : 0.0f;
    float y = 0x1.470b4ap-13f;
    y = fmaf(y, r, 0x1.5f7276p-10f);
    y = fmaf(y, r, 0x1.3b270ep-7f);
    y = fmaf(y, r, 0x1.c6ae72p-5f);
    y = fmaf(y, r, 0x1.ebfbe2p-3f);
    y = fmaf(y, r, 0x1.62e432p-1f);
    y = fmaf(y, r, 1.0f);
    return __uint_as_float(__float_as_uint(y) + (__float_as_uint(t) << 23));
}
/* 16-bit results do not see the last bits of an exponential; f32 ones do. */
template <class T> RT_DEVICE float power_of_two(float x, float c, float k)
{
    return sizeof(T) == 4 ? exp2_poly(x, c, k) : exp2_fast(fmaf(x, c, -k));
}
/* A factor that the gradient of a row is multiplied by: f32 results see its rounding too, in every column alike. */
struct Factor {
    float high, low;
    __device__ Factor() {}
    __device__ Factor(double x) : high((float)x), low((float)(x - high)) {}
};
/* f e + v */
template <class T> RT_DEVICE float times(const Factor &f, float e, float v)
{
    return fmaf(f.high, e, sizeof(T) == 4 ? fmaf(f.low, e, v) : v);
}
/* 2^n, n an integer, at most 127; 0 below 2^-126 */
RT_DEVICE float exact_power(float n) { return n < -126.0f ? 0.0f : __uint_as_float((uint32_t)((int)n + 127) << 23); }

RT_DEVICE float largest(const float (&x)[W])
{
    return fmaxf(fmaxf(fmaxf(x[0], x[1]), fmaxf(x[2], x[3])), fmaxf(fmaxf(x[4], x[5]), fmaxf(x[6], x[7])));
}
RT_DEVICE bool is_finite(float x) { return (__float_as_uint(x) & 0x7f800000) != 0x7f800000; }

/* ---- what is known of a row ---- */

/* Sums of a thread, of a warp, of a row: z1 of the student at T = 1 (in columns that are in no other sum), zs of the
 * student over Vc, zt of the teacher over Vc, each 2^-K of what it stands for; d: sum of et (at - as), or es (as - at),
 * a = c x - K. At T = 1 columns of Vc are in zs alone, and its K is that of z1 too. */
enum { K1, KS, KT, KINDS };
enum { Z1, ZS, ZT, ZD, SUMS };
enum { REDO = 1, BAD = 2, TWICE = 4 }; /* flags */

/* What a warp tells all blocks of its row. */
struct alignas(16) Record {
    float k[KINDS], best_s, best_t; /* best of Vc; minus infinity: none */
    float z[SUMS];                  /* after the walk between: D and its total first */
    uint32_t flags;
    uint32_t drawn[2]; /* of the cluster's first warp: the row after the next; at first both rows */
};

struct Consts { /* of a row, the same in every block of its cluster */
    float k1, ks, kt;
    Factor a1, as, at;     /* of e1, es, et in the gradient */
    Factor a1s, both;      /* where e1 is es and counts from ks: a1 from there, and that + as */
    float x0, x1;          /* reverse KL: gradient es (x1 (as - at) + x0) */
    float iq, ip;          /* pair: q = es iq, p = et ip */
    float best_s, best_t;  /* of Vc */
    double z1, zs, zt, d;  /* the row's sums; d over that of its own exponentials */
    double div, total;     /* D, sum of q dD/dq */
    double lk, log2z;      /* top-k: reference and logarithm of the sum over all of Vc */
    uint32_t flags, after; /* after: the row after the next */
    bool some;             /* Vc, less the listed ids, has a column */
};

struct Head {
    uint64_t box[2]; /* of the records */
    Consts c[2];     /* in turns as well */
    double ce, kd;   /* weights of CE, over tokens, and of D, over tokens and T */
    double room[32];
    uint64_t room_u[32];
};
static_assert(sizeof(Head) <= RT_CUDA_KD_HEAD, "the head of shared memory");
static_assert(sizeof(Record) == RT_CUDA_KD_RECORD, "the records behind it");

RT_DEVICE Record *records(Head *h) { return (Record *)((unsigned char *)h + RT_CUDA_KD_HEAD); }

/* Exchange number i of the block: gives what this warp knows, the same in every lane but for what the first has drawn,
 * to all blocks of the row. The first warp gets all records of the row; the others get null, and come back at once. */
RT_DEVICE const Record *tell_all(Head *h, uint32_t i, Record x)
{
    const uint32_t lane = threadIdx.x % 32, warps = blockDim.x / 32, all = cluster_size() * warps;
    Record *record = records(h) + i % 2 * all; /* in turns: one half is read while others write the other */
    uint32_t w[sizeof(Record) / 4];
    for (int j = 0; j < 2; j++) x.drawn[j] = __shfl_sync(RT_EVERY_LANE, x.drawn[j], 0);
    memcpy(w, &x, sizeof x);
    if (lane < cluster_size()) mail_send(record + cluster_rank() * warps + threadIdx.x / 32, &h->box[i % 2], w, lane);
    mail_sent();
    if (threadIdx.x >= 32) return nullptr;
    mail_wait(&h->box[i % 2], i / 2, all * (uint32_t)sizeof(Record));
    return record;
}

/* ---- a block's slice of a row ---- */

/* One kernel: the type of the student's logits, the size of the teacher's, the loops. */
template <class S_, int T_SIZE_, int FORM_> struct Kind {
    using S = S_;
    enum { S_SIZE = (int)sizeof(S), T_SIZE = T_SIZE_, FORM = FORM_ };
    static constexpr bool LIST = FORM == RT_CUDA_KD_LIST, REVERSE = FORM == RT_CUDA_KD_REVERSE,
                          PAIR = FORM == RT_CUDA_KD_PAIR, TEACHER = FORM >= RT_CUDA_KD_FORWARD; /* logits of one */
};

/* n of eight elements of SIZE bytes, one by one, and zeros. */
template <class Word> RT_DEVICE void gather(uint32_t to, const void *from, uint32_t n)
{
    Word x[W];
#pragma unroll
    for (int i = 0; i < W; i++) x[i] = (uint32_t)i < n ? ((const Word *)from)[i] : 0;
#pragma unroll
    for (int i = 0; i < W; i++) shared_store(to + i * (uint32_t)sizeof(Word), x[i]);
}
/* Eight elements from memory to shared memory. */
template <int SIZE> RT_DEVICE void fetch_pack(uint32_t to, const void *from, uint32_t n, bool aligned)
{
    if (n == W && aligned)
        fetch_async<W * SIZE>(to, from);
    else if (SIZE == 2)
        gather<uint16_t>(to, from, n);
    else
        gather<uint32_t>(to, from, n);
}

enum Turn { FIRST, BETWEEN, LAST }; /* walks of a row */

/* The same columns of every row that the block has a part in, cut into packs. A thread has the packs threadIdx.x,
 * + blockDim.x, ..., one for each turn of a walk, and touches no others. They come into its ring of places in shared
 * memory, `depth` turns ahead. Where rings hold the slice (p.keep) a pack comes once and stays; when the last walk is
 * done with it, that of the next row is asked for. Otherwise it comes again for each walk. */
template <class X> struct Slice {
    using S = typename X::S;
    const rt_cuda_kd_params &p;
    Head *head;
    uint32_t ring_s, ring_t; /* (depth, blockDim.x) packs in shared memory */
    uint32_t first, packs;   /* first: of the row's */
    uint32_t turns, depth;   /* of this warp; lanes behind the last pack have turns with nothing in them */
    uint32_t place;          /* in the ring, of the next turn */
    uint32_t row, target;
    Consts *c; /* of this row */

    __device__ S *student(uint32_t r, uint32_t k) const { return element<S>(p.logits, r, ((uint64_t)first + k) * W); }
    __device__ const char *teacher(uint32_t r, uint32_t k) const
    {
        return p.teacher.at + ((uint64_t)r * p.teacher.stride + ((uint64_t)first + k) * W) * X::T_SIZE;
    }
    __device__ uint8_t *bits() const { return shared_bytes() + p.bits_at; }

    __device__ bool trained() const { return (int32_t)target >= 0; }

    /* Columns of pack k in a row of this many. */
    __device__ uint32_t columns(uint32_t of, uint32_t k) const
    {
        return first + k < of / W ? W : first + k == of / W ? of % W : 0;
    }
    /* Has it 8? */
    __device__ bool full(uint32_t of, uint32_t k) const { return k < p.packs && first + k < of / W; }
    /* Bit i: column i of the pack exists; is in Vc and not listed. */
    __device__ uint32_t exists(uint32_t k) const
    {
        return full(p.a.V, k) ? 255 : k < packs ? (1u << p.a.V % W) - 1 : 0;
    }
    __device__ uint32_t in_vc(uint32_t k) const { return !p.bits ? exists(k) : k < packs ? bits()[k] : 0; }

    __device__ void ask(uint32_t r, uint32_t k, uint32_t to) const
    {
        if (k >= packs) return;
        fetch_pack<X::S_SIZE>(ring_s + to * W * X::S_SIZE, student(r, k), columns(p.a.V, k), p.s_whole);
        if (X::TEACHER) fetch_pack<X::T_SIZE>(ring_t + to * W * X::T_SIZE, teacher(r, k), columns(p.a.U, k), p.t_whole);
    }
    __device__ void ask_first(uint32_t r) const
    {
        for (uint32_t i = 0, k = threadIdx.x; i < depth; i++, k += blockDim.x) {
            ask(r, k, k);
            fetch_close();
        }
    }
    /* Gives f every pack of this thread, f(k). after: the row whose packs come when those of this walk are done;
     * asks: there is one. Each pack that comes is a batch of its own. */
    template <Turn WALK, class F> __device__ void walk(uint32_t after, bool asks, F f)
    {
        const uint32_t half = (turns + 1) / 2; /* a row that is kept is waited for in two parts */
        for (uint32_t i = 0, k = threadIdx.x; i < turns; i++, k += blockDim.x) {
            if (!p.keep) fetch_wait(depth - 1);
            if (p.keep && WALK == FIRST && (i == 0 || i == half)) fetch_wait(i ? 0 : turns - half);
            f(k);
            if (!p.keep || WALK == LAST) {
                const uint32_t j = i + depth;
                const bool here = j < turns;
                if (here ? trained() : asks)
                    ask(here ? row : after, threadIdx.x + (here ? j : j - turns) * blockDim.x, place);
                fetch_close();
            }
            place += blockDim.x;
            if (place >= depth * blockDim.x) place = threadIdx.x;
        }
    }

    /* The pack that a walk is at. */
    __device__ void widen(float (&s)[W], float (&t)[W]) const
    {
        Raw<W * X::S_SIZE> y;
        shared_load<W * X::S_SIZE>(y.w, ring_s + place * W * X::S_SIZE);
        unpack<S, W>(s, y);
        if constexpr (X::TEACHER) {
            Raw<W * X::T_SIZE> x;
            shared_load<W * X::T_SIZE>(x.w, ring_t + place * W * X::T_SIZE);
            if constexpr (X::T_SIZE == 4)
                unpack<float, W>(t, x);
            else if (p.t_dtype == RT_DTYPE_BF16)
                unpack<bf16, W>(t, x);
            else
                unpack<f16, W>(t, x);
        }
    }
    /* Elements of pack k between walks: in shared memory, or where they came from. */
    __device__ const S *pack_s(uint32_t k) const
    {
        return p.keep ? (const S *)(shared_bytes() + p.ring_s) + k * W : student(row, k);
    }
    __device__ const char *pack_t(uint32_t k) const
    {
        return p.keep ? (const char *)shared_bytes() + p.ring_t + k * W * X::T_SIZE : teacher(row, k);
    }

    /* Is pack k of this slice the target's? */
    __device__ bool has_target(uint32_t k) const { return k < packs && first + k == target / W; }

    __device__ void write(uint32_t k, const float (&v)[W]) const
    {
        if (p.s_whole && full(p.a.V, k))
            store(student(row, k), v, Whole());
        else if (k < packs)
            store(student(row, k), v, Part{ columns(p.a.V, k) });
    }
};

template <class X> RT_DEVICE Slice<X> slice_of(const rt_cuda_kd_params &p)
{
    const uint32_t total = (p.a.V - 1) / W + 1, at = cluster_rank() * p.packs, lane_0 = threadIdx.x / 32 * 32;
    Slice<X> r = { p, (Head *)shared_bytes() };
    r.first = at < total ? at : total;
    r.packs = total - r.first < p.packs ? total - r.first : p.packs;
    r.ring_s = shared_place(shared_bytes()) + p.ring_s;
    r.ring_t = shared_place(shared_bytes()) + p.ring_t;
    r.turns = lane_0 < r.packs ? (r.packs - 1 - lane_0) / blockDim.x + 1 : 0;
    r.depth = r.turns < p.depth ? r.turns : p.depth;
    r.place = threadIdx.x;
    return r;
}
} // namespace

#endif
