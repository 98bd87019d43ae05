/* How fast this machine reads memory: GB/s of THREADS threads, each over 256 MiB of its own.
 *
 * usage: read_bandwidth THREADS        prints the best of five passes, all threads together
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_THREADS = 64, PASSES = 5 };
static const size_t WORDS = (256u << 20) / sizeof(uint64_t);

static pthread_barrier_t start, end;
static uint64_t sums[MAX_THREADS]; /* read by main: the loops can't be left out */

static uint64_t sum(const uint64_t *words) {
    /* Eight sums, so that the additions don't wait for one another. */
    uint64_t s[8] = {0};
    for (size_t i = 0; i < WORDS; i += 8)
        for (int j = 0; j < 8; j++) s[j] += words[i + j];
    return s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7];
}

static void *reader(void *index) {
    size_t me = (size_t)index;
    uint64_t *words = aligned_alloc(64, WORDS * sizeof *words);
    if (!words) {
        fputs("read_bandwidth: no memory\n", stderr);
        exit(1);
    }
    memset(words, 1, WORDS * sizeof *words); /* pages of its own, not the shared zero page */
    for (int pass = 0; pass < PASSES; pass++) {
        pthread_barrier_wait(&start);
        sums[me] += sum(words);
        pthread_barrier_wait(&end);
    }
    free(words);
    return NULL;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

int main(int argc, char **argv) {
    long threads = argc == 2 ? strtol(argv[1], NULL, 10) : 0;
    if (threads < 1 || threads > MAX_THREADS) {
        fprintf(stderr, "usage: read_bandwidth THREADS (1 to %d)\n", MAX_THREADS);
        return 2;
    }
    pthread_t ids[MAX_THREADS];
    pthread_barrier_init(&start, NULL, threads + 1);
    pthread_barrier_init(&end, NULL, threads + 1);
    for (long i = 0; i < threads; i++)
        if (pthread_create(&ids[i], NULL, reader, (void *)i)) {
            fputs("read_bandwidth: no thread\n", stderr);
            return 1;
        }
    double best = 1e30;
    for (int pass = 0; pass < PASSES; pass++) {
        pthread_barrier_wait(&start);
        double from = now();
        pthread_barrier_wait(&end);
        double took = now() - from;
        if (took < best) best = took;
    }
    uint64_t all = 0;
    for (long i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
        all += sums[i];
    }
    /* Every byte is 1: what was read is known. */
    if (all != (uint64_t)threads * PASSES * WORDS * 0x0101010101010101u) {
        fputs("read_bandwidth: wrong sum\n", stderr);
        return 1;
    }
    printf("%.2f\n", threads * WORDS * sizeof(uint64_t) / best / 1e9);
    return 0;
}
