//! A flamegraph: one SVG file, which needs nothing else.

use std::io::{self, Write};

use super::path::{PathNode, Paths};
use super::text::Xml;

/// Pixels.
const WIDTH: f64 = 1200.0;
const ROW: f64 = 18.0;
const MARGIN: f64 = 10.0;
/// Above the frames: the title and what is left out.
const HEAD: f64 = 56.0;
/// Of a character of the font, as good as can be known.
const CHARACTER: f64 = 7.0;
/// Frames that are narrower can't be seen, and are left out.
const NARROWEST: f64 = 0.1;

/// Where a frame stands: from the left, and how wide, in pixels.
#[derive(Clone, Copy)]
struct Place {
    x: f64,
    width: f64,
}

impl Paths {
    /// A flamegraph (as Brendan Gregg's, <https://www.brendangregg.com/flamegraphs.html>), roots on
    /// top: a frame is as wide as its share of the time, and says it when pointed at. Siblings are
    /// in the order in which they first began.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_flamegraph(&self, title: &str, out: &mut impl Write) -> io::Result<()> {
        let total = self.total_ns();
        let places = self.places(total);
        let rows = self
            .nodes
            .iter()
            .map(|node| node.depth + 1)
            .max()
            .unwrap_or(0)
            + 1;
        let (width, height) = (WIDTH + 2.0 * MARGIN, HEAD + rows as f64 * ROW + MARGIN);
        let hidden = places
            .iter()
            .filter(|place| place.width < NARROWEST)
            .count();
        writeln!(out, r#"<?xml version="1.0" encoding="UTF-8"?>"#)?;
        writeln!(
            out,
            r##"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" font-family="ui-monospace, monospace" font-size="11">
<style>rect {{ stroke: #fff; stroke-width: 0.5 }} g:hover rect {{ stroke: #000 }} text {{ pointer-events: none; fill: #111 }}</style>
<rect x="0" y="0" width="{width}" height="{height}" fill="#fcfcfc"/>
<text x="{MARGIN}" y="22" font-size="15">{}</text>
<text x="{MARGIN}" y="42">{} of self time on all threads (measured); {hidden} frames narrower than {NARROWEST} px not drawn</text>"##,
            Xml(title),
            Time(total),
        )?;
        let all = Place {
            x: MARGIN,
            width: WIDTH,
        };
        frame(
            out,
            all,
            0,
            "all",
            "#d9d9d9",
            &format!("all: {}", Time(total)),
        )?;
        for (node, place) in self.nodes.iter().zip(&places) {
            if place.width >= NARROWEST {
                frame(
                    out,
                    *place,
                    node.depth + 1,
                    &node.name,
                    color(node),
                    &tooltip(node, total),
                )?;
            }
        }
        writeln!(out, "</svg>")
    }

    /// Each node begins where its elder sibling ends, and is as wide as all the self time in it.
    fn places(&self, total: u64) -> Vec<Place> {
        // Not `total_ns`: a scope that outlives what it is in would be wider than that.
        let mut inside: Vec<u64> = self.nodes.iter().map(|node| node.self_ns).collect();
        for (index, node) in self.nodes.iter().enumerate().rev() {
            if let Some(parent) = node.parent {
                inside[parent] += inside[index];
            }
        }
        let scale = WIDTH / total.max(1) as f64;
        let mut taken = vec![0; self.nodes.len()];
        let mut top = 0;
        let mut places: Vec<Place> = Vec::with_capacity(self.nodes.len());
        for (index, node) in self.nodes.iter().enumerate() {
            let (left, before) = match node.parent {
                Some(parent) => (places[parent].x, &mut taken[parent]),
                None => (MARGIN, &mut top),
            };
            places.push(Place {
                x: left + *before as f64 * scale,
                width: inside[index] as f64 * scale,
            });
            *before += inside[index];
        }
        places
    }
}

fn tooltip(node: &PathNode, total: u64) -> String {
    let share = 100.0 * node.self_ns as f64 / total.max(1) as f64;
    let (name, count) = (&node.name, node.count);
    let (whole, own) = (Time(node.total_ns), Time(node.self_ns));
    let place = node.brick.map_or(String::new(), |info| {
        format!("\n{} ({}:{})", info.module, info.file, info.line)
    });
    format!("{name}: {count} calls, {whole}, of that {own} itself ({share:.1} % of all){place}")
}

fn frame(
    out: &mut impl Write,
    place: Place,
    row: usize,
    name: &str,
    color: &str,
    tooltip: &str,
) -> io::Result<()> {
    let (x, width, y) = (place.x, place.width, HEAD + row as f64 * ROW);
    write!(
        out,
        r#"<g><title>{}</title><rect x="{x:.3}" y="{y}" width="{width:.3}" height="{ROW}" fill="{color}"/>"#,
        Xml(tooltip),
    )?;
    let room = ((width - 6.0) / CHARACTER).max(0.0) as usize;
    if room >= 3 {
        let length = name.chars().count();
        let shown: String = match length <= room {
            true => name.to_owned(),
            false => name.chars().take(room - 1).chain(['…']).collect(),
        };
        write!(
            out,
            r#"<text x="{:.3}" y="{}">{}</text>"#,
            x + 3.0,
            y + 13.0,
            Xml(&shown)
        )?;
    }
    writeln!(out, "</g>")
}

/// The same for the same category; scopes are grey.
fn color(node: &PathNode) -> &'static str {
    const COLORS: [&str; 8] = [
        "#f4a261", "#e9c46a", "#8ecae6", "#a7c957", "#e5989b", "#b8a1d9", "#90dbd0", "#f6bd60",
    ];
    match node.brick {
        None => "#e6e6e6",
        Some(info) => {
            let hash = crate::registry::wire_id("", info.category);
            COLORS[(hash % COLORS.len() as u64) as usize]
        }
    }
}

/// Nanoseconds for people.
struct Time(u64);

impl std::fmt::Display for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            ns @ ..1_000 => write!(f, "{ns} ns"),
            ns @ ..1_000_000 => write!(f, "{:.2} µs", ns as f64 / 1e3),
            ns @ ..1_000_000_000 => write!(f, "{:.2} ms", ns as f64 / 1e6),
            ns => write!(f, "{:.3} s", ns as f64 / 1e9),
        }
    }
}
