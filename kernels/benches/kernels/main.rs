//! Every kernel at the shapes of a 270M model, and how far it is from what the machine can do:
//! `cargo bench -p brick-kernels`, two minutes; `-- --quick` takes less, `-- gemv` some of them.
//!
//! The ceilings are measured first. Then each line of a kernel's throughput says which part of them
//! it reaches: operations against those of the instructions that it uses (bytes multiplied, or
//! `f32`), bytes against the memory, or the cores' caches where all that it touches fits one.
//! `f32` and `rounded` are the two ways of taking activations. On all cores, or as many as
//! `RAYON_NUM_THREADS` says; `BRICK_KERNELS` forces an instruction set. On a busy machine the time of one
//! thread says more: the middle of three numbers is the median.

mod elementwise;
mod products;
mod roofline;

use std::time::Duration;

use brick_kernels::Team;
use criterion::{Criterion, criterion_group};

use self::roofline::Roofline;

/// The group of a bench.
type Group<'a> = criterion::BenchmarkGroup<'a, Roofline>;

fn activations(n: usize) -> Vec<f32> {
    (0..n).map(|i| (i as f32 * 0.37).sin()).collect()
}

fn settings() -> Criterion<Roofline> {
    Criterion::default()
        .with_measurement(Roofline::measure())
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(500))
        .sample_size(20)
}

criterion_group! {
    name = kernels;
    config = settings();
    targets =
        products::gemv_of_every_format,
        products::gemv_from_memory,
        products::few_tokens,
        products::gemm_of_a_prompt,
        products::projections,
        products::lm_head_of_a_large_vocabulary,
        elementwise::attention_over_a_cache,
        elementwise::norms,
        elementwise::positions_and_cache,
        elementwise::softmax_and_sampling
}

/// As a program runs them: from inside the pool, with a team for the work of one token.
fn main() {
    let pool = rayon::ThreadPoolBuilder::new().build().expect("threads");
    let team = Team::new(pool.current_num_threads()).expect("threads");
    pool.install(|| {
        team.install(|| {
            kernels();
            Criterion::default().configure_from_args().final_summary();
        });
    });
}
