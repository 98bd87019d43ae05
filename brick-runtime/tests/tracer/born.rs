//! Threads that are born while somebody looks, and die before he looks up.

use std::thread::{self, JoinHandle};

use super::raw;

/// Threads of each round that the caller starts; each starts one more.
const CHILDREN: usize = 3;

/// What the rounds do, by name and number: calls that every thread makes when it starts, those that make
/// threads, and those that these threads are there to make.
pub(crate) const BORN: [(&str, i64, u64); 5] = [
    ("getuid", libc::SYS_getuid, 2 * (10 + 20 + 30)),
    ("clone3", libc::SYS_clone3, 2 * CHILDREN as u64),
    (
        "set_robust_list",
        libc::SYS_set_robust_list,
        2 * CHILDREN as u64,
    ),
    ("rseq", libc::SYS_rseq, 2 * CHILDREN as u64),
    ("prctl", libc::SYS_prctl, 2 * CHILDREN as u64),
];

/// `n` rounds of threads; each says who it is and how many calls it makes.
pub(crate) fn all(n: usize) {
    for _ in 0..n {
        let children: Vec<_> = (1..=CHILDREN).map(child).collect();
        for thread in children {
            thread.join().unwrap();
        }
    }
}

fn child(i: usize) -> JoinHandle<()> {
    start(format!("child-{i}"), move || {
        calls(i);
        let grandchild = start(format!("grandchild-{i}"), move || calls(i));
        grandchild.join().unwrap();
    })
}

fn start(name: String, body: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    let builder = thread::Builder::new().name(name.clone());
    let body = move || {
        println!("born {} {name}", raw(libc::SYS_gettid, [0; 6]));
        body();
    };
    builder.spawn(body).unwrap()
}

fn calls(i: usize) {
    for _ in 0..10 * i {
        raw(libc::SYS_getuid, [0; 6]);
    }
}
