//! A picture of a load: throughput and latency over time, as SVG.

use std::fmt::Write;

use crate::bench::Second;
use crate::hunt::Found;
use crate::report::time;

const WIDTH: f64 = 760.0;
/// Of one of the two graphs, and of the margins around it.
const HEIGHT: f64 = 180.0;
const LEFT: f64 = 90.0;
const TOP: f64 = 50.0;
const GAP: f64 = 60.0;

/// A named line of a graph.
struct Line<'a> {
    name: &'a str,
    colour: &'a str,
    values: Vec<f64>,
}

/// Draws the seconds of a load, at least two.
pub(crate) fn draw(seconds: &[Second], title: &str) -> String {
    let times: Vec<_> = seconds.iter().map(|s| s.at).collect();
    let per = |of: fn(&Second) -> f64| seconds.iter().map(of).collect::<Vec<_>>();
    let sent = per(|s| s.sent as f64 / s.lasted);
    let received = per(|s| s.received as f64 / s.lasted);
    let throughput = [
        Line { name: "sent", colour: "#bbbbbb", values: sent },
        Line { name: "received", colour: "#0072b2", values: received },
    ];
    let latency = [
        Line { name: "p50", colour: "#009e73", values: per(|s| s.p50 as f64) },
        Line { name: "p99", colour: "#d55e00", values: per(|s| s.p99 as f64) },
    ];
    let mut svg = begin(2.0, title);
    graph(&mut svg, TOP, &times, &throughput, |v| format!("{v:.0}/s"));
    graph(&mut svg, TOP + HEIGHT + GAP, &times, &latency, |v| time(v as u64));
    svg + "</svg>\n"
}

/// Draws the trials of a search, one after the other: a dot at its load, filled if it held; the
/// answer is a line across.
pub(crate) fn draw_search(found: &Found, title: &str) -> String {
    let loads = || found.steps.iter().map(|step| step.load);
    let most = loads().fold(1.0, f64::max) * 1.05;
    let answer = found.answer.map_or("no answer".to_owned(), |load| format!("{load:.0}"));
    let (name, unit) = (found.what.name(), found.what.unit());
    let mut svg = begin(1.0, &format!("{name}: {answer} {unit} ({title})"));
    let x = |n: usize| LEFT + WIDTH * (n as f64 + 0.5) / found.steps.len().max(1) as f64;
    let y = |load: f64| TOP + HEIGHT * (1.0 - load / most);
    let mut put = |text: String| writeln!(svg, "{text}").expect("text takes text");
    for load in [0.0, most / 2.0, most] {
        put(format!(
            "<path d=\"M{LEFT} {:.1}h{WIDTH}\" stroke=\"#eeeeee\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{load:.0}</text>",
            y(load),
            LEFT - 8.0,
            y(load) + 4.0
        ));
    }
    if let Some(load) = found.answer {
        put(format!("<path d=\"M{LEFT} {:.1}h{WIDTH}\" stroke=\"#009e73\"/>", y(load)));
    }
    for (n, step) in found.steps.iter().enumerate() {
        let (colour, fill) = if step.held { ("#009e73", "#009e73") } else { ("#d55e00", "white") };
        put(format!(
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"5\" stroke=\"{colour}\" fill=\"{fill}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{:.0}, lost {}</text>",
            x(n),
            y(step.load),
            x(n),
            TOP + HEIGHT + 18.0,
            step.load,
            step.lost
        ));
    }
    svg + "</svg>\n"
}

/// The head of a picture of so many graphs, one above the other.
fn begin(graphs: f64, title: &str) -> String {
    let (width, height) = (LEFT + WIDTH + 30.0, TOP + graphs * (HEIGHT + GAP));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"20\" font-size=\"15\">{}</text>\n",
        escape(title)
    )
}

fn graph(svg: &mut String, top: f64, times: &[f64], lines: &[Line], unit: fn(f64) -> String) {
    let all = lines.iter().flat_map(|l| &l.values);
    let most = all.copied().fold(1.0, f64::max) * 1.05;
    let end = times.last().copied().unwrap_or(1.0).max(1e-3);
    let x = |at: f64| LEFT + WIDTH * at / end;
    let y = |value: f64| top + HEIGHT * (1.0 - value / most);
    let mut put = |text: String| writeln!(svg, "{text}").expect("text takes text");
    for part in 0..=4 {
        let (value, at) = (most * f64::from(part) / 4.0, end * f64::from(part) / 4.0);
        let (level, left) = (y(value), LEFT - 8.0);
        put(format!(
            "<path d=\"M{LEFT} {level:.1}h{WIDTH}\" stroke=\"#eeeeee\"/>\
             <text x=\"{left}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{at:.1} s</text>",
            level + 4.0,
            unit(value),
            x(at),
            top + HEIGHT + 18.0
        ));
    }
    for (line, n) in lines.iter().zip(0..) {
        let points = times.iter().zip(&line.values);
        let points: Vec<_> = points.map(|(at, v)| format!("{:.1},{:.1}", x(*at), y(*v))).collect();
        let (name, colour) = (line.name, line.colour);
        put(format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" fill=\"{colour}\">{name}</text>",
            points.join(" "),
            LEFT + 80.0 * f64::from(n),
            top - 8.0
        ));
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::What;
    use crate::hunt::Step;

    #[test]
    fn every_second_is_a_point_inside_the_picture() {
        let second = |at: f64, sent, p99| Second {
            at,
            lasted: 1.0,
            sent,
            received: sent / 2,
            p50: p99 / 3,
            p99,
            faults: 0,
        };
        let svg = draw(&[second(1.0, 100, 9000), second(2.0, 300, 500)], "a <b> & c");
        assert!(svg.contains("a &lt;b&gt; &amp; c"));
        let lines: Vec<_> = svg.split("points=\"").skip(1).collect();
        assert_eq!(lines.len(), 4, "sent, received, p50, p99");
        for line in lines {
            let points: Vec<_> = line.split('"').next().expect("a list").split(' ').collect();
            assert_eq!(points.len(), 2);
            for point in points {
                let (x, y) = point.split_once(',').expect("two numbers");
                let (x, y): (f64, f64) = (x.parse().expect("x"), y.parse().expect("y"));
                assert!(
                    (LEFT..=LEFT + WIDTH).contains(&x)
                        && (TOP..=TOP + 2.0 * HEIGHT + GAP).contains(&y)
                );
            }
        }
    }

    #[test]
    fn every_trial_is_a_dot_and_the_answer_a_line() {
        let step = |load, held| Step { load, held, ..Step::default() };
        let steps = vec![step(1000.0, false), step(500.0, true), step(750.0, false)];
        let mut found = Found { what: What::Cps, steps, answer: Some(500.0) };
        let svg = draw_search(&found, "a load");
        assert_eq!(svg.matches("<circle").count(), 3);
        assert_eq!(svg.matches("fill=\"white\"/>").count(), 3, "the ground and two that failed");
        assert!(svg.contains("cps: 500 new connections/s (a load)"), "{svg}");
        assert_eq!(svg.matches("<path").count(), 4);
        found.answer = None;
        let svg = draw_search(&found, "a load");
        assert!(svg.contains("no answer") && svg.matches("<path").count() == 3);
    }
}
