//! Which events there are: of all threads, and if the kernel agrees of all that they start.

use std::fs;
use std::io;
use std::num::NonZeroUsize;

use super::event::{Events, Of};
use crate::tracer::observer::ring::{Ring, Tracepoints};
use crate::tracer::observer::{sys, threads};

/// Data pages of a ring that many threads, or the calling one, write to: some 7000 system calls
/// until the drain gets to run.
const MOST_PAGES: usize = 256;
/// And of the other threads' rings, and of a processor's where there are many: some 800.
const FEWEST_PAGES: usize = 32;
/// Of all processors' rings together: 16 MiB.
const ALL_PAGES: usize = 4096;

/// Threads may start threads while events are opened for them. Then it is all done again, so often.
const TRIES: u32 = 4;

/// The events of all threads, and their rings.
#[derive(Debug)]
pub(super) struct Watched {
    /// The caller's first.
    pub(super) events: Vec<Events>,
    pub(super) rings: Vec<Ring>,
    /// The events whose ring each of these is, by index.
    pub(super) owners: Vec<usize>,
    /// Why threads that are started are not followed; `None` if they are.
    pub(super) not_followed: Option<String>,
}

/// Whom to watch, and with how much.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) ids: Tracepoints,
    pub(super) caller: i32,
    /// The tracer's own thread.
    pub(super) except: i32,
    /// Of each ring, where that was asked for.
    pub(super) pages: Option<NonZeroUsize>,
}

impl Plan {
    /// Every thread of this process, and those that they start if that can be.
    pub(super) fn watch(self) -> io::Result<Watched> {
        match self.families() {
            Ok(watched) => Ok(watched),
            Err(why) => Ok(Watched {
                not_followed: Some(why),
                ..self.threads()?
            }),
        }
    }

    /// The caller first, for the calibration is in what it does.
    fn list(&self) -> Vec<i32> {
        let mut tids = threads::list(std::process::id());
        tids.retain(|&tid| tid != self.except);
        tids.sort_unstable_by_key(|&tid| (tid != self.caller, tid));
        tids
    }

    /// Events that are inherited, for each thread on each processor; or why there are none.
    fn families(&self) -> Result<Watched, String> {
        let cpus = online().ok_or("/sys/devices/system/cpu/online does not tell the processors")?;
        for _ in 0..TRIES {
            let tids = self.list();
            let needed = 2 * tids.len() * cpus.len();
            // The program needs some itself while it is watched.
            if needed as u64 > sys::descriptor_limit() / 2 {
                return Err(format!(
                    "it would take {needed} descriptors: raise the limit with ulimit -n"
                ));
            }
            let watched = self
                .open_families(&tids, &cpus)
                .map_err(|error| refused(&error))?;
            // All had their events when this was listed, and what is started from now on inherits
            // them. Who is new here may have them or not.
            if self.list().iter().all(|tid| tids.contains(tid)) {
                return Ok(watched);
            }
        }
        Err("threads kept starting threads while they were counted".into())
    }

    fn open_families(&self, tids: &[i32], cpus: &[i32]) -> io::Result<Watched> {
        let most = (ALL_PAGES / cpus.len()).clamp(FEWEST_PAGES, MOST_PAGES);
        let pages = self.pages.map_or(most, NonZeroUsize::get);
        let mut watched = Watched::new();
        for &tid in tids {
            for (n, &cpu) in cpus.iter().enumerate() {
                let events = match Events::open(Of::Family { tid, cpu }, self.ids, pages) {
                    Ok(events) => events,
                    Err(error) if has_ended(&error) => break,
                    Err(error) => return Err(error),
                };
                match watched.owners.get(n) {
                    Some(&owner) => events.share(&watched.events[owner])?,
                    None => watched.add_ring(events.ring(pages)?),
                }
                watched.events.push(events);
            }
        }
        Ok(watched)
    }

    /// Events of each thread, with a ring of its own.
    fn threads(&self) -> io::Result<Watched> {
        let mut watched = Watched::new();
        let mut known = Vec::new();
        // Until a look finds nobody new: threads may start threads meanwhile.
        loop {
            let mut new = self.list();
            new.retain(|tid| !known.contains(tid));
            if new.is_empty() {
                return Ok(watched);
            }
            for &tid in &new {
                let most = if tid == self.caller {
                    MOST_PAGES
                } else {
                    FEWEST_PAGES
                };
                let pages = self.pages.map_or(most, NonZeroUsize::get);
                match Events::open(Of::Thread(tid), self.ids, pages) {
                    Ok(events) => {
                        watched.add_ring(events.ring(pages)?);
                        watched.events.push(events);
                    }
                    Err(error) if has_ended(&error) => {}
                    Err(error) => return Err(error),
                }
            }
            known.extend(new);
        }
    }
}

impl Watched {
    fn new() -> Watched {
        Watched {
            events: Vec::new(),
            rings: Vec::new(),
            owners: Vec::new(),
            not_followed: None,
        }
    }

    /// The ring of the events that are pushed next.
    fn add_ring(&mut self, ring: Ring) {
        self.owners.push(self.events.len());
        self.rings.push(ring);
    }
}

fn has_ended(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ESRCH)
}

fn refused(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EINVAL) => "this kernel follows no threads (inherit_thread, Linux 5.13)".into(),
        _ => format!("the kernel does not let threads be followed: {error}"),
    }
}

/// The numbers of the processors that are in use.
fn online() -> Option<Vec<i32>> {
    parse_list(&fs::read_to_string("/sys/devices/system/cpu/online").ok()?)
}

/// Of a list such as `0-3,8`.
fn parse_list(text: &str) -> Option<Vec<i32>> {
    let mut cpus = Vec::new();
    for part in text.trim_end().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cpus.extend(first.parse::<i32>().ok()?..=last.parse().ok()?);
    }
    (!cpus.is_empty()).then_some(cpus)
}

#[cfg(test)]
mod tests {
    use super::parse_list;

    #[test]
    fn lists_of_processors() {
        assert_eq!(parse_list("0\n"), Some(vec![0]));
        assert_eq!(
            parse_list("0-3,8,10-11\n"),
            Some(vec![0, 1, 2, 3, 8, 10, 11])
        );
        assert_eq!(parse_list("\n"), None);
        assert_eq!(parse_list("0-\n"), None);
    }
}
