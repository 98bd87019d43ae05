//! What a stream of spans is made of, where there are recordings.

use super::attribute::Attributes;
use super::context::TraceFlags;
use super::describe::{Describer, Place};
use super::id::SpanId;
use super::lamport::LamportClock;
use super::record::SpanRecord;
use super::recorded::{RecordedSpans, cost};
use super::stream::StreamCounts;
use crate::clock;
use crate::figure::Figure;
use crate::timeline::Recording;
use crate::timeline::assemble::Stopped;
use crate::timeline::live::Live;
use crate::timeline::log::{EventId, Raw};
use crate::timeline::scale::Scale;
use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};

/// Ids that are computed: a child has to name its parent, which has not ended and may never.
#[derive(Debug)]
struct Ids {
    /// Random, and another one for each recording.
    keys: RandomState,
    /// A forked child has the same keys.
    pid: u32,
}

impl Ids {
    fn of(&self, event: EventId) -> SpanId {
        let draw = |attempt: u32| self.keys.hash_one((self.pid, event, attempt));
        // Not all zero: the second attempt is one of 2^64.
        (0..)
            .find_map(|attempt| SpanId::new(draw(attempt).to_be_bytes()))
            .unwrap_or_else(SpanId::random)
    }
}

/// An event that has ended.
#[derive(Clone, Debug)]
struct Ended {
    log: usize,
    raw: Raw,
    clock: u64,
}

impl Ended {
    fn id(&self) -> EventId {
        EventId {
            log: self.log,
            index: self.raw.index,
        }
    }

    /// Of two that ended together the inner one ended first, and it began last.
    fn order(&self) -> impl Ord + use<> {
        (self.raw.end, Reverse((self.raw.index, self.log)))
    }
}

#[derive(Debug)]
pub(super) struct Stream {
    /// Until it is stopped.
    live: Option<Live>,
    /// From then on, until the root is complete.
    stopped: Option<Stopped>,
    root: SpanRecord,
    /// The root is complete, and has not been given away.
    root_is_due: bool,
    clock: LamportClock,
    ids: Ids,
    scale: Scale,
    describer: Describer,
    /// The thread of each log, as the system numbers it.
    threads: HashMap<usize, Option<u64>>,
    /// What ended after the last look began, or after something that stayed in its log: what ended
    /// before that may not have been seen.
    late: Vec<Ended>,
    /// To be given away.
    ready: VecDeque<Ended>,
    /// Of what was not recorded, to be given away too; and how many these were.
    added: VecDeque<SpanRecord>,
    added_spans: usize,
    /// Everything that was ready, if it is to be kept.
    kept: Option<Vec<Ended>>,
    /// The tick at which the recording stopped.
    stop: u64,
    counts: StreamCounts,
}

impl Stream {
    pub(super) fn new(recording: Recording, root: SpanRecord, clock: LamportClock) -> Stream {
        let live = recording.into_live();
        let anchor = live.anchor();
        Stream {
            root: SpanRecord {
                start_unix_ns: anchor.unix_ns,
                end_unix_ns: anchor.unix_ns,
                ..root
            },
            stopped: None,
            root_is_due: false,
            clock,
            ids: Ids {
                keys: RandomState::new(),
                pid: std::process::id(),
            },
            scale: live.scale(),
            describer: Describer::new(anchor.unix_ns),
            threads: HashMap::new(),
            late: Vec::new(),
            ready: VecDeque::new(),
            added: VecDeque::new(),
            added_spans: 0,
            kept: None,
            stop: anchor.tick,
            counts: StreamCounts {
                events: 0,
                threads: 0,
                dropped: 0,
                ns_per_event: Figure::Measured(live.ns_per_event()),
            },
            live: Some(live),
        }
    }

    pub(super) fn keeping(mut self) -> Stream {
        self.kept.get_or_insert_default();
        self
    }

    pub(super) fn with(mut self, name: &'static str, attributes: Attributes) -> Stream {
        self.describer.add(name, attributes);
        self
    }

    pub(super) fn add(&mut self, spans: Vec<SpanRecord>) {
        let root = self.root.context(TraceFlags::SAMPLED);
        self.added_spans += spans.len();
        let spans = spans.into_iter().map(|span| span.in_context(&root));
        self.added.extend(spans);
    }

    pub(super) fn spans(&self) -> usize {
        self.counts.events + self.added_spans + 1
    }

    pub(super) fn root(&self) -> &SpanRecord {
        &self.root
    }

    pub(super) fn counts(&self) -> StreamCounts {
        self.counts.clone()
    }

    pub(super) fn advance(&mut self) {
        let Some(live) = &self.live else {
            return;
        };
        let now = clock::any_ticks();
        let logs = live.take_ended();
        self.scale.refine(now);
        // What is later than something that stays, stays too: a parent is not told before its child.
        let stays = logs.iter().filter_map(|log| log.stays).min();
        let until = stays.map_or(now, |stays| now.min(stays.saturating_sub(1)));
        for log in logs.into_iter().filter(|log| !log.events.is_empty()) {
            self.threads.insert(log.log, log.os_id);
            let ended = log.events.into_iter().flatten().map(|raw| Ended {
                log: log.log,
                raw,
                clock: 0,
            });
            self.late.extend(ended);
        }
        let (ready, late) = std::mem::take(&mut self.late)
            .into_iter()
            .partition(|ended| ended.raw.end.is_some_and(|end| end <= until));
        self.late = late;
        self.make_ready(ready);
    }

    /// Puts what has ended in order, and gives it its time.
    fn make_ready(&mut self, mut ended: Vec<Ended>) {
        ended.sort_by_key(Ended::order);
        for ended in &mut ended {
            ended.clock = self.clock.tick();
        }
        self.counts.events += ended.len();
        self.counts.threads = self.threads.len();
        if let Some(kept) = &mut self.kept {
            kept.extend(ended.iter().cloned());
        }
        self.ready.extend(ended);
    }

    pub(super) fn stop(&mut self) {
        if let Some(live) = self.live.take() {
            let mut stopped = live.close();
            self.stop = stopped.stop;
            self.take_rest(&mut stopped);
            self.counts.dropped = stopped.dropped();
            self.stopped = Some(stopped);
        }
    }

    pub(super) fn complete(
        &mut self,
        complete: impl FnOnce(SpanRecord) -> SpanRecord,
    ) -> Option<RecordedSpans> {
        self.stop();
        let stopped = self.stopped.take()?;
        self.root_is_due = true;
        let start = self.describer.start_unix_ns;
        let root = complete(self.root.clone());
        self.root = SpanRecord {
            // As they were told already.
            trace_id: self.root.trace_id,
            span_id: self.root.span_id,
            resource: self.root.resource.clone(),
            start_unix_ns: start,
            end_unix_ns: start.saturating_add(self.scale.ns(stopped.stop)),
            logical_clock: Some(self.clock.tick()),
            ..root
        }
        .with(cost(self.counts.dropped, self.counts.ns_per_event.value()));
        let kept = self.kept.take()?;
        Some(self.whole(stopped, kept))
    }

    /// Everything that is left in the logs, the open ones with the end of the recording.
    fn take_rest(&mut self, stopped: &mut Stopped) {
        let mut rest = std::mem::take(&mut self.late);
        for (number, log) in stopped.logs.iter_mut().enumerate() {
            let ended = std::mem::take(&mut log.ended).into_iter().flatten();
            let before = rest.len();
            let all = ended.chain(std::mem::take(&mut log.open));
            rest.extend(all.map(|raw| Ended {
                log: number,
                raw,
                clock: 0,
            }));
            if rest.len() > before {
                self.threads.insert(number, log.thread.os_id);
            }
        }
        // What never ended comes after all that did.
        let (ended, open) = rest.into_iter().partition(|e| e.raw.end.is_some());
        self.make_ready(ended);
        self.make_ready(open);
    }

    /// All that was recorded, as it was told.
    fn whole(&self, mut stopped: Stopped, kept: Vec<Ended>) -> RecordedSpans {
        let clocks: HashMap<EventId, u64> = kept.iter().map(|e| (e.id(), e.clock)).collect();
        for ended in kept {
            if let Some(log) = stopped.logs.get_mut(ended.log) {
                log.open.push(ended.raw);
            }
        }
        let (timeline, events) = stopped.assemble(&self.scale);
        let told = events.into_iter().map(|event| {
            let clock = clocks.get(&event).copied().unwrap_or_default();
            (self.ids.of(event), clock)
        });
        let told = told.collect();
        RecordedSpans::told(timeline, self.root.clone(), told, self.describer.afresh())
    }

    pub(super) fn next(&mut self) -> Option<SpanRecord> {
        let Some(ended) = self.ready.pop_front() else {
            if let Some(added) = self.added.pop_front() {
                return Some(added);
            }
            let due = std::mem::take(&mut self.root_is_due);
            return due.then(|| self.root.clone());
        };
        if let (Some(live), None) = (&self.live, &self.kept) {
            live.room().give_back(1);
        }
        let in_its_log = ended.raw.parent.map(|index| EventId {
            log: ended.log,
            index,
        });
        let parent = ended.raw.launched_by.or(in_its_log);
        let place = Place {
            id: self.ids.of(ended.id()),
            parent: parent.map_or(self.root.span_id, |parent| self.ids.of(parent)),
            clock: ended.clock,
            tid: self.threads.get(&ended.log).copied().flatten(),
        };
        let event = ended.raw.event(&self.scale, self.stop);
        Some(self.describer.span(&self.root, &event, place))
    }
}
