/* What this machine can do at most, by another compiler: the manual counterpart of brick-kernels' `ceilings`.
 *
 *     gcc -O3 -march=native -mprefer-vector-width=512 -fopenmp tests/oracles/peak.c -o target/peak && target/peak
 *     OMP_NUM_THREADS=1 target/peak
 *
 * Reads a buffer like STREAM's sum would, in 32 pieces in turn, and multiplies and adds in registers.
 * Prints the best of 51 repeats, their median and quartiles, in GB/s and GFLOP/s.
 */
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { REPEATS = 51, PIECES = 32, CHAINS = 12, LANES = 16 };
typedef float vector __attribute__((vector_size(LANES * sizeof(float))));

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void told(const char *what, double *rates) {
    qsort(rates, REPEATS, sizeof *rates, by_size);
    printf("%-20s %8.1f, %.1f (%.1f-%.1f)\n", what, rates[REPEATS - 1], rates[REPEATS / 2], rates[REPEATS / 4],
           rates[3 * REPEATS / 4]);
}

int main(void) {
    int threads = omp_get_max_threads();
    double rates[REPEATS];
    uint64_t sink = 0;
    size_t n = ((size_t)520 << 20) / sizeof(uint64_t);
    uint64_t *data = malloc(n * sizeof *data);
    if (!data) return 1;
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < n; i++) data[i] = i;
    printf("%d threads\n", threads);
    for (int r = 0; r < REPEATS; r++) {
        size_t len = n / PIECES, from = len * (r % PIECES);
        double begin = omp_get_wtime();
#pragma omp parallel for schedule(static) reduction(+ : sink)
        for (size_t i = from; i < from + len; i++) sink += data[i];
        rates[r] = len * sizeof *data / (omp_get_wtime() - begin) / 1e9;
    }
    told("memory read GB/s", rates);
    size_t own = (256 << 10) / sizeof(uint64_t);
    for (int r = 0; r < REPEATS; r++) {
        int calls = 200;
        double begin = omp_get_wtime();
#pragma omp parallel reduction(+ : sink)
        for (int c = 0; c < calls; c++) {
            const uint64_t *part = data + omp_get_thread_num() * own;
            __asm__ volatile("" : "+r"(part) : : "memory");
            for (size_t i = 0; i < own; i++) sink += part[i];
        }
        rates[r] = (double)calls * threads * own * sizeof *data / (omp_get_wtime() - begin) / 1e9;
    }
    told("cache read GB/s", rates);
    float factor = 1.0f, addend = 1.0f, total = 0.0f;
    __asm__ volatile("" : "+x"(factor), "+x"(addend));
    for (int r = 0; r < REPEATS; r++) {
        int iterations = 40000;
        double begin = omp_get_wtime();
#pragma omp parallel reduction(+ : total)
        {
            vector chains[CHAINS];
            for (int c = 0; c < CHAINS; c++) chains[c] = (vector){0} + (float)c; /* all alike would be one */
            for (int i = 0; i < iterations; i++)
#pragma GCC unroll 12
                for (int c = 0; c < CHAINS; c++) chains[c] = chains[c] * factor + addend;
            for (int c = 0; c < CHAINS; c++)
                for (int lane = 0; lane < LANES; lane++) total += chains[c][lane];
        }
        rates[r] = 2.0 * iterations * CHAINS * LANES * threads / (omp_get_wtime() - begin) / 1e9;
    }
    told("f32 GFLOP/s", rates);
    return sink == 1 && total == 1.0f;
}
