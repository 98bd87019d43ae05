//! What is traced: system calls whose numbers are known, and whose times are taken besides.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::raw;

/// What really happened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Truth {
    pub(crate) slept: Duration,
    pub(crate) reading: Duration,
    /// CPU time of the reading: so long it takes at least.
    pub(crate) reading_cpu: Duration,
    pub(crate) spinning: Duration,
}

/// A thread that makes 40 calls of `getuid` each time it is asked, and none to be asked.
pub(crate) struct Worker {
    asked: &'static AtomicU32,
    done: &'static AtomicU32,
    thread: JoinHandle<()>,
}

const QUIT: u32 = u32::MAX;

impl Worker {
    fn start() -> Worker {
        static ASKED: AtomicU32 = AtomicU32::new(0);
        static DONE: AtomicU32 = AtomicU32::new(QUIT);
        let thread = thread::Builder::new()
            .name("worker".into())
            .spawn(|| {
                let mut done = 0;
                // What a thread begins with is behind it.
                DONE.store(done, SeqCst);
                loop {
                    match ASKED.load(SeqCst) {
                        QUIT => return,
                        asked if asked > done => {
                            for _ in 0..40 {
                                raw(libc::SYS_getuid, [0; 6]);
                            }
                            done += 1;
                            DONE.store(done, SeqCst);
                        }
                        _ => std::hint::spin_loop(),
                    }
                }
            })
            .unwrap();
        while DONE.load(SeqCst) == QUIT {
            std::hint::spin_loop();
        }
        Worker {
            asked: &ASKED,
            done: &DONE,
            thread,
        }
    }

    fn ask(&self) {
        let before = self.done.load(SeqCst);
        self.asked.fetch_add(1, SeqCst);
        while self.done.load(SeqCst) == before {
            std::hint::spin_loop();
        }
    }

    fn quit(self) {
        self.asked.store(QUIT, SeqCst);
        self.thread.join().unwrap();
    }
}

/// CPU time of this thread, by one system call.
fn cpu_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let into = (&raw mut time).expose_provenance();
    let clock = libc::CLOCK_THREAD_CPUTIME_ID as usize;
    raw(libc::SYS_clock_gettime, [clock, into, 0, 0, 0, 0]);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// One of everything.
pub(crate) struct Mixed {
    zero: File,
    null: File,
    buffer: Vec<u8>,
    worker: Worker,
}

/// The calls of [`Mixed::run`] by name and number.
pub(crate) const MIXED: [(&str, i64, u64); 10] = [
    ("clock_gettime", libc::SYS_clock_gettime, 2),
    ("mmap", libc::SYS_mmap, 50),
    ("munmap", libc::SYS_munmap, 50),
    ("read", libc::SYS_read, 10),
    ("pread64", libc::SYS_pread64, 20),
    ("write", libc::SYS_write, 100),
    ("ioctl", libc::SYS_ioctl, 30),
    ("futex", libc::SYS_futex, 3),
    ("nanosleep", libc::SYS_nanosleep, 3),
    ("getuid", libc::SYS_getuid, 40),
];

impl Mixed {
    pub(crate) fn new() -> Mixed {
        Mixed {
            zero: File::open("/dev/zero").unwrap(),
            null: File::options().write(true).open("/dev/null").unwrap(),
            buffer: vec![1; 8 << 20],
            worker: Worker::start(),
        }
    }

    pub(crate) fn run(&mut self) -> Truth {
        let mut truth = Truth::default();
        let (zero, null) = (
            self.zero.as_raw_fd() as usize,
            self.null.as_raw_fd() as usize,
        );
        let buffer = self.buffer.as_mut_ptr().expose_provenance();
        let private = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
        for _ in 0..50 {
            let pages = raw(libc::SYS_mmap, [0, 1 << 20, 3, private, usize::MAX, 0]);
            raw(libc::SYS_munmap, [pages as usize, 1 << 20, 0, 0, 0, 0]);
        }
        let (begin, cpu) = (Instant::now(), cpu_time());
        for _ in 0..10 {
            raw(libc::SYS_read, [zero, buffer, self.buffer.len(), 0, 0, 0]);
        }
        truth.reading_cpu = cpu_time() - cpu;
        truth.reading = begin.elapsed();
        for _ in 0..20 {
            raw(libc::SYS_pread64, [zero, buffer, 4096, 0, 0, 0]);
        }
        for _ in 0..100 {
            raw(libc::SYS_write, [null, buffer, 4096, 0, 0, 0]);
        }
        for _ in 0..30 {
            let mut waiting: libc::c_int = 0;
            let into = (&raw mut waiting).expose_provenance();
            raw(
                libc::SYS_ioctl,
                [zero, libc::FIONREAD as usize, into, 0, 0, 0],
            );
        }
        let time = |ms: i64| libc::timespec {
            tv_sec: 0,
            tv_nsec: ms * 1_000_000,
        };
        let word = AtomicU32::new(0);
        let (at, short) = (word.as_ptr().expose_provenance(), time(2));
        for _ in 0..3 {
            let wait = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as usize;
            let timeout = ptr::from_ref(&short).expose_provenance();
            raw(libc::SYS_futex, [at, wait, 0, timeout, 0, 0]);
        }
        let (begin, long) = (Instant::now(), time(20));
        for _ in 0..3 {
            let time = ptr::from_ref(&long).expose_provenance();
            raw(libc::SYS_nanosleep, [time, 0, 0, 0, 0, 0]);
        }
        truth.slept = begin.elapsed();
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(20) {
            std::hint::spin_loop();
        }
        self.worker.ask();
        truth.spinning = begin.elapsed();
        truth
    }

    pub(crate) fn quit(self) {
        self.worker.quit();
    }
}
