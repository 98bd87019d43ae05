//! A brick that waits for a thread of a pool, while another thread waits for something else.

use std::fs::File;
use std::io::Read;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use brick_runtime::tracer::BrickTracer;

use super::raw;
use super::scenes::{SCENE, tell};

/// What the pool's thread sleeps.
pub(crate) const SLEEP: Duration = Duration::from_millis(40);
/// And reads, with so many calls.
pub(crate) const READS: u64 = 25;

pub(crate) fn play(tracer: &BrickTracer) {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(2)
        .thread_name(|n| format!("pool {n}"))
        .build()
        .unwrap();
    // Until all have nothing left to do but to wait.
    let (done, wait) = channel::<()>();
    let (hello, hellos) = channel();
    let bystander = thread::Builder::new().name("bystander".into());
    let bystander = bystander.spawn(move || {
        hello.send(tid()).unwrap();
        wait.recv()
    });
    println!("bystander {}", hellos.recv().unwrap());
    thread::sleep(Duration::from_millis(100));
    let mut zero = File::open("/dev/zero").unwrap();
    let mut buffer = vec![1; 8 << 20];
    let traced = tracer.trace_now(&SCENE, 1000, || {
        pool.install(|| {
            thread::sleep(SLEEP);
            for _ in 0..READS {
                zero.read_exact(&mut buffer).unwrap();
            }
            tid()
        })
    });
    println!("worker {}", traced.result);
    println!("caller {}", tid());
    tell(&traced);
    drop(done);
    assert!(bystander.unwrap().join().unwrap().is_err());
}

/// Threads that wait until the program ends.
pub(crate) fn start(n: usize) {
    for _ in 0..n {
        thread::spawn(|| {
            loop {
                thread::park();
            }
        });
    }
    thread::sleep(Duration::from_millis(100));
}

fn tid() -> i64 {
    raw(libc::SYS_gettid, [0; 6])
}
