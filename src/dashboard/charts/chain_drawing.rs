//! The chains of jobs as graphs, from left to right: a job stands behind all its parents.

use std::collections::BTreeMap;

use crate::dashboard::documents::ChainedJobDocument;
use crate::dashboard::page_link::job_path;
use crate::dashboard::shown_text::ShownText;

/// The size of a box, and the distances of boxes.
const WIDTH: usize = 190;
const HEIGHT: usize = 44;
const ACROSS: usize = 240;
const DOWN: usize = 56;
/// The number of letters that a box has room for.
const LETTERS: usize = 21;

/// A chain: the job at its top, and the boxes and arrows of all its jobs.
pub(in crate::dashboard) struct ChainDrawing {
    /// The job at the top. `None` for the jobs of chains with a fault.
    pub(in crate::dashboard) root: Option<ShownText>,
    pub(in crate::dashboard) width: usize,
    pub(in crate::dashboard) height: usize,
    pub(in crate::dashboard) boxes: Vec<ChainBox>,
    pub(in crate::dashboard) arrows: Vec<String>,
}

/// A job in its box.
pub(in crate::dashboard) struct ChainBox {
    pub(in crate::dashboard) name: ShownText,
    /// The beginning of the name that the box has room for.
    pub(in crate::dashboard) short: String,
    pub(in crate::dashboard) path: String,
    pub(in crate::dashboard) schedule: ShownText,
    pub(in crate::dashboard) parents: Vec<ShownText>,
    /// The state of the last run as a class, and in words.
    pub(in crate::dashboard) class: String,
    pub(in crate::dashboard) state: String,
    pub(in crate::dashboard) x: usize,
    pub(in crate::dashboard) y: usize,
}

impl ChainDrawing {
    /// Returns the drawings of all chains. `states` has the state of the last run of each job.
    pub(in crate::dashboard) fn all(
        jobs: &[ChainedJobDocument],
        states: &BTreeMap<String, String>,
    ) -> Vec<Self> {
        let mut chains: BTreeMap<Option<&str>, Vec<&ChainedJobDocument>> = BTreeMap::new();
        for job in jobs {
            chains.entry(job.root.as_ref().map(ShownText::as_str)).or_default().push(job);
        }
        chains.into_values().map(|jobs| Self::of(&jobs, states)).collect()
    }

    fn of(jobs: &[&ChainedJobDocument], states: &BTreeMap<String, String>) -> Self {
        let places = places(jobs);
        let place = |name: &ShownText| places.get(name.as_str()).copied();
        let x = |layer: usize| layer * ACROSS + 1;
        let y = |row: usize| row * DOWN + 1;
        let mut arrows = Vec::new();
        for job in jobs {
            let Some((layer, row)) = place(&job.job) else { continue };
            for (from, from_row) in job.parents.iter().filter_map(place) {
                let (x1, y1) = (x(from) + WIDTH, y(from_row) + HEIGHT / 2);
                let (x2, y2) = (x(layer), y(row) + HEIGHT / 2);
                let middle = usize::midpoint(x1, x2);
                let line = format!("M{x1} {y1}C{middle} {y1} {middle} {y2} {x2} {y2}");
                arrows.push(format!("{line}m-6 -4l6 4l-6 4"));
            }
        }
        let boxes = jobs.iter().filter_map(|job| {
            let (layer, row) = place(&job.job)?;
            let state = states.get(job.job.as_str()).map_or("never ran", String::as_str);
            Some(ChainBox {
                name: job.job.clone(),
                short: shortened(job.job.as_str()),
                path: job_path(job.job.as_str()),
                schedule: job.schedule.clone(),
                parents: job.parents.clone(),
                class: state.replace([' ', '_'], "-"),
                state: state.replace('_', " "),
                x: x(layer),
                y: y(row),
            })
        });
        let layers = places.values().map(|(layer, _)| layer + 1).max().unwrap_or(0);
        let rows = places.values().map(|(_, row)| row + 1).max().unwrap_or(0);
        Self {
            root: jobs.first().and_then(|job| job.root.clone()),
            width: layers * ACROSS - (ACROSS - WIDTH) + 2,
            height: rows * DOWN - (DOWN - HEIGHT) + 2,
            boxes: boxes.collect(),
            arrows,
        }
    }
}

/// Returns the place of each job: its layer, which is behind those of its parents, and its row.
fn places(jobs: &[&ChainedJobDocument]) -> BTreeMap<String, (usize, usize)> {
    let index: BTreeMap<&str, usize> =
        jobs.iter().enumerate().map(|(at, job)| (job.job.as_str(), at)).collect();
    let parents: Vec<Vec<usize>> = jobs
        .iter()
        .map(|job| {
            job.parents.iter().filter_map(|name| index.get(name.as_str()).copied()).collect()
        })
        .collect();
    let mut layers = vec![0_usize; jobs.len()];
    // Without a cycle no path is longer than the number of jobs. With a cycle the search stops there.
    for _ in 0..jobs.len() {
        let mut is_settled = true;
        for (job, parents) in parents.iter().enumerate() {
            let wanted = parents.iter().map(|parent| layers[*parent] + 1).max().unwrap_or(0);
            if wanted > layers[job] && wanted < jobs.len() {
                layers[job] = wanted;
                is_settled = false;
            }
        }
        if is_settled {
            break;
        }
    }
    let mut rows = vec![0_usize; jobs.len()];
    for layer in 0..=layers.iter().copied().max().unwrap_or(0) {
        let mut here: Vec<usize> = (0..jobs.len()).filter(|job| layers[*job] == layer).collect();
        // A job stands near the middle of its parents.
        here.sort_by_key(|job| {
            let of = &parents[*job];
            let sum: usize = of.iter().map(|parent| rows[*parent]).sum();
            (sum * 16 / of.len().max(1), jobs[*job].job.clone())
        });
        let mut free = 0;
        for job in here {
            let of = &parents[job];
            let sum: usize = of.iter().map(|parent| rows[*parent]).sum();
            rows[job] = free.max(if of.len() == 1 { sum } else { 0 });
            free = rows[job] + 1;
        }
    }
    let place = |(at, job): (usize, &&ChainedJobDocument)| {
        (job.job.as_str().to_owned(), (layers[at], rows[at]))
    };
    jobs.iter().enumerate().map(place).collect()
}

fn shortened(name: &str) -> String {
    if name.chars().count() <= LETTERS {
        return name.to_owned();
    }
    let start: String = name.chars().take(LETTERS - 1).collect();
    format!("{start}…")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn jobs(edges: &[(&str, &[&str])], root: Option<&str>) -> Vec<ChainedJobDocument> {
        let job = |(name, parents): &(&str, &[&str])| {
            let job = json!({"job": name, "schedule": "s", "root": root, "parents": parents});
            serde_json::from_value(job).unwrap()
        };
        edges.iter().map(job).collect()
    }

    #[test]
    fn a_job_stands_behind_all_its_parents_and_no_two_share_a_place() {
        let jobs = jobs(
            &[
                ("extract", &[]),
                ("load", &["extract"]),
                ("clean", &["extract"]),
                ("report", &["load", "clean", "extract"]),
                ("mail", &["report"]),
            ],
            Some("extract"),
        );
        let states = BTreeMap::from([("load".to_owned(), "timed_out".to_owned())]);
        let drawings = ChainDrawing::all(&jobs, &states);
        assert_eq!(drawings.len(), 1);
        let x = |name: &str| {
            drawings[0].boxes.iter().find(|found| found.name.as_str() == name).unwrap().x
        };
        assert!(x("extract") < x("load") && x("load") == x("clean"));
        assert!(x("report") > x("clean") && x("mail") > x("report"));
        let places: std::collections::BTreeSet<(usize, usize)> =
            drawings[0].boxes.iter().map(|found| (found.x, found.y)).collect();
        assert_eq!(places.len(), 5);
        assert_eq!(drawings[0].arrows.len(), 6);
        let load = &drawings[0].boxes[1];
        assert_eq!((load.class.as_str(), load.state.as_str()), ("timed-out", "timed out"));
    }

    #[test]
    fn a_cycle_is_drawn_too() {
        let jobs = jobs(&[("a", &["b"]), ("b", &["a"])], None);
        let drawings = ChainDrawing::all(&jobs, &BTreeMap::new());
        assert_eq!((drawings[0].boxes.len(), drawings[0].arrows.len()), (2, 2));
    }
}
