/* cuda_kd_row.cuh - what the walks of kd_loss over a row stand on: powers of two, what is known of a row, a block's
 * slice of it.
 *
 * Owns: references and factors, how the warps of a row tell each other, how packs of the next row come while this one
 * is done. How a row is done is in cuda_kd.cu, which also says how references work. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_KD_ROW_CUH
#define RT_BACKEND_CUDA_KERNELS_CUDA_KD_ROW_CUH

#include "backend/cuda/kernels/cuda_kd_terms.cuh"

namespace
{
constexpr int W = RT_CUDA_KD_PACK;
#if __CUDA_ARCH__ >= 900
constexpr int MOST_BLOCKS = RT_CUDA_KD_CLUSTER; /* of a row */
#else
constexpr int MOST_BLOCKS = 1;
#endif
constexpr float LOG2E = 0x1.715476p+0f;
constexpr float NO_K = -0x1p24f, MOST_K = 0x1p22f; /* no reference yet; none that is used is larger */

/* One kernel. SWIFT: logits of one type, rows that are whole packs, aligned, and stay in shared memory. */
template <class S_, int FORM_, bool SWIFT_> struct Kind {
    using S = S_; /* of the student's logits; the teacher's are of any type where the kernel is not swift */
    enum { FORM = FORM_, SIZE = (int)sizeof(S) };
    static constexpr bool SWIFT = SWIFT_, LIST = FORM == RT_CUDA_KD_LIST, REVERSE = FORM == RT_CUDA_KD_REVERSE,
                          PAIR = FORM == RT_CUDA_KD_PAIR, TEACHER = FORM >= RT_CUDA_KD_FORWARD; /* logits of one */
};

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
/* e1 of es, at T = 2 or 4: which power it is, and counts from the same multiple of K. */
RT_DEVICE float power(uint32_t how) { return how == RT_CUDA_KD_FOURTH ? 4.0f : 2.0f; }
RT_DEVICE float e1_of(float es, uint32_t how)
{
    es *= es;
    return how == RT_CUDA_KD_FOURTH ? es * es : es;
}
/* 2^n, at most 2^127; 0 below 2^-126 */
RT_DEVICE float exact_power(int32_t n) { return n < -126 ? 0.0f : __uint_as_float((uint32_t)(n + 127) << 23); }

/* A factor that the gradient of a row is multiplied by, in every column alike: f32 results see its rounding, 16-bit
 * ones do not. */
template <class S> struct Precise {
    using Real = float;
};
template <> struct Precise<float> {
    using Real = double;
};
template <class S> using Real = typename Precise<S>::Real;
struct Factor {
    float high, low;
    __device__ Factor() {}
    __device__ Factor(float x) : high(x), low(0.0f) {}
    __device__ Factor(double x) : high((float)x), low((float)(x - high)) {}
};
/* f e + v */
template <class T> RT_DEVICE float times(const Factor &f, float e, float v)
{
    return fmaf(f.high, e, sizeof(T) == 4 ? fmaf(f.low, e, v) : v);
}
RT_DEVICE bool is_finite(float x) { return (__float_as_uint(x) & 0x7f800000) != 0x7f800000; }

/* ---- what is known of a row ---- */

/* Sums of a thread, of a warp, of a row: z1 of the student at T = 1 over all columns, zs of the student over Vc, zt of
 * the teacher over Vc, each 2^-K of what it stands for; d: sum of et (at - as), or es (as - at), a = c x - K. Where the
 * divergence is at T = 1 too, columns of Vc are in zs alone. */
enum { K1, KS, KT, KINDS };
enum { Z1, ZS, ZT, ZD, SUMS };
enum { REDO = 1, BAD = 2, TWICE = 4 }; /* flags */

/* What a warp tells all blocks of its row. */
struct alignas(16) Record {
    float z[SUMS]; /* after the walk between: D and its total first */
    int32_t k[KINDS];
    uint32_t flags;
    float best_s, best_t; /* of Vc; minus infinity: none */
    uint32_t drawn;       /* of the cluster's first warp: the row after the next */
};

struct Consts { /* of a row, the same in every block of its cluster but for the owner */
    float k1, ks, kt;
    Factor a1, as, at;     /* of e1, es, et in the gradient */
    Factor a1s, both;      /* where e1 comes from es, which counts from ks: a1 from there; where it is es, that + as */
    float k4, as4;         /* T = 4: a1 e1 is the fourth power of what counts from k4, as es a multiple of it */
    float k_at;            /* at et is minus what counts from it */
    float x0, x1;          /* reverse KL: gradient es (x1 (as - at) + x0) */
    float iq, ip;          /* pair: q = es iq, p = et ip */
    float best_s, best_t;  /* of Vc */
    double z1, zs, zt, zd; /* the row's sums */
    double div, total;     /* D, sum of q dD/dq, where the gradient needs them */
    double lk, log2z;      /* top-k: reference and logarithm of the sum over all of Vc */
    uint32_t flags, after; /* after: the row after the next */
    uint32_t owner;        /* thread that has the target's pack; none: it is in another block */
    bool some;             /* Vc, less the listed ids, has a column */
};

struct Head {
    uint64_t box[2]; /* of the records */
    Consts c[2];     /* in turns, as the records are: one is read while the other is written */
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
    Record *record = records(h) + i % 2 * all;
    uint32_t w[sizeof(Record) / 4];
    x.drawn = __shfl_sync(RT_EVERY_LANE, x.drawn, 0);
    memcpy(w, &x, sizeof x);
    if (lane < cluster_size()) mail_send(record + cluster_rank() * warps + threadIdx.x / 32, &h->box[i % 2], w, lane);
    mail_sent();
    if (threadIdx.x >= 32) return nullptr;
    mail_wait(&h->box[i % 2], i / 2, all * (uint32_t)sizeof(Record));
    return record;
}

/* ---- a block's slice of a row ---- */

/* n of eight elements, one by one, and zeros. */
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
template <class T> RT_DEVICE Raw<W *(int)sizeof(T)> raw_pack(uint32_t at)
{
    Raw<W *(int)sizeof(T)> x;
    shared_load<W *(int)sizeof(T)>(x.w, at);
    return x;
}
template <class T> RT_DEVICE void widen(float (&v)[W], uint32_t at) { unpack<T, W>(v, raw_pack<T>(at)); }

enum Turn { FIRST, BETWEEN, LAST }; /* walks of a row */

/* The same columns of every row that the block has a part in, cut into packs. A thread has the packs threadIdx.x,
 * + blockDim.x, ..., one for each turn of a walk, and touches no others. They come into its ring of places in shared
 * memory, `depth` turns ahead. Where rings hold the slice (p.keep) a pack comes once and stays; when the last walk is
 * done with it, that of the next row is asked for. Otherwise it comes again for each walk. */
template <class X> struct Slice {
    using S = typename X::S;
    const rt_cuda_kd_params &p;
    Head *head;
    uint32_t ring_s, ring_t; /* this thread's first places */
    uint32_t first, packs;   /* first: of the row's */
    uint32_t turns, depth;   /* of this warp: lanes behind the last pack have turns with nothing in them */
    uint32_t mine, clean;    /* turns that have a pack; of these the first that are all in Vc (swift) */
    bool differs;            /* a pack of the warp is not all in Vc, or that is not known */
    uint32_t place;          /* in the ring, of the next turn (not swift) */
    uint32_t row, target;
    Consts *c; /* of this row */

    __device__ bool trained() const { return (int32_t)target >= 0; }
    __device__ uint32_t t_size() const { return X::SWIFT ? X::SIZE : p.t_dtype == RT_DTYPE_F32 ? 4 : 2; }
    __device__ S *student(uint32_t r, uint32_t k) const { return element<S>(p.logits, r, ((uint64_t)first + k) * W); }
    __device__ const char *teacher(uint32_t r, uint32_t k) const
    {
        return p.teacher.at + ((uint64_t)r * p.teacher.stride + ((uint64_t)first + k) * W) * t_size();
    }
    __device__ uint8_t *bits() const { return shared_bytes() + p.bits_at; }

    /* Columns of pack k in a row of this many. */
    __device__ uint32_t columns(uint32_t of, uint32_t k) const
    {
        return first + k < of / W ? W : first + k == of / W ? of % W : 0;
    }
    /* Bit i: column i of the pack exists; is in Vc and not listed. */
    __device__ uint32_t exists(uint32_t k) const
    {
        return k < packs ? X::SWIFT ? 255 : (1u << columns(p.a.V, k)) - 1 : 0;
    }
    __device__ uint32_t in_vc(uint32_t k) const { return !p.bits ? exists(k) : k < packs ? bits()[k] : 0; }

    /* ---- turns of a thread in a swift kernel ---- */

    /* f(k, at_s, at_t) for turns begin to end: the pack, and its places. */
    template <class F> __device__ void each(uint32_t begin, uint32_t end, F f) const
    {
        constexpr uint32_t THREADS = RT_CUDA_KD_THREADS, step = THREADS * W * X::SIZE;
        uint32_t at_s = ring_s + begin * step, at_t = ring_t + begin * step;
        for (uint32_t i = begin, k = threadIdx.x + begin * THREADS; i < end; i++, k += THREADS) {
            f(k, at_s, at_t);
            at_s += step, at_t += step;
        }
    }
    /* The same from the first turn on, for a row that was asked for; it is waited for in two parts. */
    template <class F> __device__ void each_come(uint32_t end, F f) const
    {
        const uint32_t half = (mine + 1) / 2, middle = half < end ? half : end;
        fetch_wait(mine - half);
        each(0, middle, f);
        fetch_wait(0);
        each(middle, end, f);
    }

    /* ---- turns of a warp in any kernel ---- */

    __device__ void ask(uint32_t r, uint32_t k, uint32_t to) const
    {
        const uint32_t at = (to - threadIdx.x) * W;
        if (k >= packs) return;
        fetch_pack<X::SIZE>(ring_s + at * X::SIZE, student(r, k), columns(p.a.V, k), X::SWIFT || p.s_whole);
        if (!X::TEACHER) return;
        if (X::SWIFT)
            fetch_pack<X::SIZE>(ring_t + at * X::SIZE, teacher(r, k), columns(p.a.U, k), true);
        else if (p.t_dtype == RT_DTYPE_F32)
            fetch_pack<4>(ring_t + at * 4, teacher(r, k), columns(p.a.U, k), p.t_whole);
        else
            fetch_pack<2>(ring_t + at * 2, teacher(r, k), columns(p.a.U, k), p.t_whole);
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
        for (uint32_t i = 0, k = threadIdx.x; i < turns; i++, k += blockDim.x) {
            if (!p.keep || WALK == FIRST) fetch_wait(p.keep ? turns - 1 - i : depth - 1);
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
    /* The pack that such a walk is at. */
    __device__ void widen_both(float (&s)[W], float (&t)[W]) const
    {
        const uint32_t at = (place - threadIdx.x) * W;
        widen<S>(s, ring_s + at * X::SIZE);
        if (!X::TEACHER) return;
        if (p.t_dtype == RT_DTYPE_F32)
            widen<float>(t, ring_t + at * 4);
        else if (p.t_dtype == RT_DTYPE_BF16)
            widen<bf16>(t, ring_t + at * 2);
        else
            widen<f16>(t, ring_t + at * 2);
    }

    /* ---- elements and packs between walks: in shared memory, or where they came from ---- */

    __device__ float student_at(uint32_t k, uint32_t i) const
    {
        return to_float(p.keep ? ((const S *)(shared_bytes() + p.ring_s))[k * W + i] : student(row, k)[i]);
    }
    __device__ float teacher_at(uint32_t k, uint32_t i) const
    {
        return load_one(p.keep ? (const char *)shared_bytes() + p.ring_t + k * W * t_size() : teacher(row, k),
                        p.t_dtype, i);
    }

    __device__ void student_pack(float (&v)[W], uint32_t k) const
    {
        if constexpr (X::SWIFT) {
            widen<S>(v, ring_s + (k - threadIdx.x) * W * X::SIZE);
        } else {
#pragma unroll
            for (int i = 0; i < W; i++) v[i] = (uint32_t)i < columns(p.a.V, k) ? student_at(k, i) : 0.0f;
        }
    }
    __device__ void teacher_pack(float (&v)[W], uint32_t k) const
    {
        if constexpr (X::SWIFT) {
            widen<S>(v, ring_t + (k - threadIdx.x) * W * X::SIZE);
        } else {
#pragma unroll
            for (int i = 0; i < W; i++) v[i] = (uint32_t)i < columns(p.a.U, k) ? teacher_at(k, i) : 0.0f;
        }
    }

    __device__ void write(uint32_t k, const float (&v)[W]) const
    {
        const uint32_t n = k < packs ? columns(p.a.V, k) : 0;
        if (n == W && (X::SWIFT || p.s_whole))
            store(student(row, k), v, Whole());
        else
            store(student(row, k), v, Part{ n });
    }
};

template <class X> RT_DEVICE Slice<X> slice_of(const rt_cuda_kd_params &p)
{
    const uint32_t total = (p.a.V - 1) / W + 1, at = cluster_rank() * p.packs, lane_0 = threadIdx.x / 32 * 32;
    Slice<X> r = { p, (Head *)shared_bytes() };
    r.first = at < total ? at : total;
    r.packs = total - r.first < p.packs ? total - r.first : p.packs;
    r.turns = lane_0 < r.packs ? (r.packs - 1 - lane_0) / blockDim.x + 1 : 0;
    r.mine = threadIdx.x < r.packs ? (r.packs - 1 - threadIdx.x) / blockDim.x + 1 : 0;
    r.depth = r.turns < p.depth ? r.turns : p.depth;
    r.place = threadIdx.x;
    r.differs = p.bits;
    r.ring_s = shared_place(shared_bytes() + p.ring_s) + threadIdx.x * W * X::SIZE;
    r.ring_t = shared_place(shared_bytes() + p.ring_t) + threadIdx.x * W * r.t_size();
    return r;
}
} // namespace

#endif
