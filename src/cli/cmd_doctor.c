/* cmd_doctor.c - `retort doctor`: the binary, the CPU, the memory, and every backend with its devices or the
 * reason why it has none. Facts are gathered once and printed as text or JSON. */
#include "base/sys.h"
#include "cli/cli.h"

#include <stdio.h>

typedef struct machine {
    char cpu[96], os[160], features[256];
    uint32_t cores;
    uint64_t llc;
    rt_sys_memory memory;
} machine;

/* Those that choose a kernel here or may in future; by name as the compiler knows them. */
static void cpu_features(char *buf, size_t size)
{
    size_t n = 0;
    buf[0] = 0;
#if defined(__x86_64__)
#define HAS(f)                                                                                                         \
    if (__builtin_cpu_supports(f) && n < size) n += (size_t)snprintf(buf + n, size - n, "%s%s", n ? " " : "", f)
    __builtin_cpu_init();
    HAS("sse4.2");
    HAS("avx");
    HAS("avx2");
    HAS("fma");
    HAS("bmi2");
    HAS("avx512f");
    HAS("avx512bw");
    HAS("avx512dq");
    HAS("avx512vl");
    HAS("avx512vnni");
    HAS("avx512bf16");
#undef HAS
#elif defined(__aarch64__)
    n = (size_t)snprintf(buf, size, "neon");
#endif
    if (!n) snprintf(buf, size, "none that matter here");
}

static void look(machine *m)
{
    rt_sys_cpu_name(m->cpu, sizeof m->cpu);
    rt_sys_os_name(m->os, sizeof m->os);
    cpu_features(m->features, sizeof m->features);
    m->cores = rt_cpu_count();
    m->llc = rt_sys_llc_bytes();
    rt_sys_memory_query(&m->memory);
}

static void print_text(const machine *m)
{
    char a[32], b[32], mpi[600];
    rt_job_env env = rt_cli_env(0);
    rt_job_backend k;
    rt_put("binary    retort %s (%s), compiler %s\n", rt_cli_version, rt_cli_build, __VERSION__);
    rt_put("system    %s\n", m->os);
    rt_put("cpu       %s, %u core%s usable, last-level cache %s\n", m->cpu, m->cores, m->cores == 1 ? "" : "s",
           rt_format_bytes(a, m->llc));
    rt_put("features  %s\n", m->features);
    rt_put("memory    %s, %s available", rt_format_bytes(a, m->memory.total), rt_format_bytes(b, m->memory.available));
    if (m->memory.cgroup_limit) rt_put(", container limit %s", rt_format_bytes(a, m->memory.cgroup_limit));
    rt_job_ranks_probe(mpi, sizeof mpi);
    rt_put("\nmpi       %s\n", mpi);
    rt_put("backends\n");
    for (uint32_t n = 0; rt_job_backend_name(n); n++) {
        rt_job_backend_probe(n, env.environment, &k);
        if (k.count == 0) rt_put_under(9, "  %-6s no device: %s\n", k.name, k.why);
        for (uint32_t i = 0; i < k.count; i++) {
            const rt_dev_info *d = &k.devices[i];
            rt_put_under(9, "  %-6s %u: %s%s%s\n", i ? "" : k.name, i, d->name, d->detail[0] ? "; " : "", d->detail);
            if (d->ranks[0]) rt_put_under(9, "         ranks: %s\n", d->ranks);
            if (d->warning[0]) rt_put("         warning: %s\n", d->warning);
        }
    }
}

static json_t *backends_json(void)
{
    json_t *list = json_array();
    rt_job_env env = rt_cli_env(0);
    rt_job_backend k;
    for (uint32_t n = 0; rt_job_backend_name(n); n++) {
        rt_job_backend_probe(n, env.environment, &k);
        json_t *devices = json_array();
        for (uint32_t i = 0; i < k.count; i++) {
            const rt_dev_info *d = &k.devices[i];
            json_array_append_new(devices,
                                  json_pack("{s:i, s:s, s:s, s:s?, s:s?, s:I, s:I}", "index", (int)i, "name", d->name,
                                            "detail", d->detail, "ranks", d->ranks[0] ? d->ranks : NULL, "warning",
                                            d->warning[0] ? d->warning : NULL, "memory_total",
                                            (json_int_t)d->memory_total, "memory_free", (json_int_t)d->memory_free));
        }
        json_array_append_new(
            list, json_pack("{s:s, s:o, s:s?}", "name", k.name, "devices", devices, "reason", k.count ? NULL : k.why));
    }
    return list;
}

static json_t *to_json(const machine *m)
{
    char mpi[600];
    rt_job_ranks_probe(mpi, sizeof mpi);
    return json_pack("{s:s, s:{s:s, s:s, s:s}, s:s, s:{s:s, s:i, s:I, s:s}, s:{s:I, s:I, s:I}, s:o}", "mpi", mpi,
                     "binary", "version", rt_cli_version, "build", rt_cli_build, "compiler", __VERSION__, "system",
                     m->os, "cpu", "name", m->cpu, "cores", (int)m->cores, "last_level_cache", (json_int_t)m->llc,
                     "features", m->features, "memory", "total", (json_int_t)m->memory.total, "available",
                     (json_int_t)m->memory.available, "limit", (json_int_t)m->memory.cgroup_limit, "backends",
                     backends_json());
}

int rt_cmd_doctor(int argc, char **argv, rt_err *e)
{
    bool json = false, help;
    const rt_flag flags[] = { { "--json", RT_FLAG_BOOL, &json, NULL, "the same facts as JSON" }, { 0 } };
    const rt_command c = {
        .name = "doctor",
        .usage = "retort doctor [--json]",
        .text = "Prints what this binary is, what the machine has, and each backend with its devices or the\n"
                "reason why it has none. Changes nothing.",
        .example = "retort doctor --json",
        .flags = flags,
    };
    machine m = { 0 };
    int rc = rt_args_parse(&c, argc, argv, &help, e);
    if (rc < 0 || help) return rc;
    look(&m);
    if (json) return rt_print_json(to_json(&m), e);
    print_text(&m);
    return RT_OK;
}
