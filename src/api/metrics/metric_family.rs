//! A metric with its samples, and the text of many metrics.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use schedd_schedule::time::time_histogram::TimeCounts;

/// The labels of a sample: names and values.
type Labels = Vec<(&'static str, String)>;

/// A metric: its name, type and meaning, and a sample for each set of labels.
#[derive(Debug)]
pub(super) struct MetricFamily {
    /// The name, without the ending `_total` of a counter.
    name: &'static str,
    /// The meaning, as a sentence.
    meaning: &'static str,
    samples: Samples,
}

#[derive(Debug)]
enum Samples {
    Counter(Vec<(Labels, u64)>),
    Gauge(Vec<(Labels, f64)>),
    Histogram(Vec<(Labels, TimeCounts)>),
}

impl MetricFamily {
    /// Returns a counter. Its samples get names with the ending `_total`.
    pub(super) fn counter(
        name: &'static str,
        meaning: &'static str,
        samples: impl IntoIterator<Item = (Labels, u64)>,
    ) -> Self {
        Self { name, meaning, samples: Samples::Counter(samples.into_iter().collect()) }
    }

    /// Returns a gauge.
    pub(super) fn gauge(
        name: &'static str,
        meaning: &'static str,
        samples: impl IntoIterator<Item = (Labels, f64)>,
    ) -> Self {
        Self { name, meaning, samples: Samples::Gauge(samples.into_iter().collect()) }
    }

    /// Returns a gauge with one sample without labels, or with none.
    pub(super) fn value(name: &'static str, meaning: &'static str, value: Option<f64>) -> Self {
        Self::gauge(name, meaning, value.map(|value| (Labels::new(), value)))
    }

    /// Returns a histogram. Label sets that counted nothing are left out.
    pub(super) fn histogram(
        name: &'static str,
        meaning: &'static str,
        samples: impl IntoIterator<Item = (Labels, TimeCounts)>,
    ) -> Self {
        let samples = samples.into_iter().filter(|(_, counts)| counts.count() > 0).collect();
        Self { name, meaning, samples: Samples::Histogram(samples) }
    }

    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let kind = match self.samples {
            Samples::Counter(_) => MetricType::Counter,
            Samples::Gauge(_) => MetricType::Gauge,
            Samples::Histogram(_) => MetricType::Histogram,
        };
        let mut metric = encoder.encode_descriptor(self.name, self.meaning, None, kind)?;
        match &self.samples {
            Samples::Counter(samples) => each(&mut metric, samples, |metric, count| {
                metric.encode_counter::<NoLabelSet, u64, f64>(count, None)
            }),
            #[expect(
                clippy::redundant_closure_for_method_calls,
                reason = "the method is not general enough in the lifetime of the encoder"
            )]
            Samples::Gauge(samples) => {
                each(&mut metric, samples, |metric, value| metric.encode_gauge(value))
            }
            Samples::Histogram(samples) => each(&mut metric, samples, |metric, counts| {
                metric.encode_histogram::<NoLabelSet>(
                    counts.sum,
                    counts.count(),
                    &counts.buckets,
                    None,
                )
            }),
        }
    }
}

fn each<T>(
    metric: &mut MetricEncoder<'_>,
    samples: &[(Labels, T)],
    encode: impl Fn(&mut MetricEncoder<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    samples.iter().try_for_each(|(labels, value)| {
        if labels.is_empty() {
            encode(metric, value)
        } else {
            encode(&mut metric.encode_family(labels)?, value)
        }
    })
}

/// The metrics of one answer.
#[derive(Debug)]
struct Scrape(Vec<MetricFamily>);

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|family| family.encode(&mut encoder))
    }
}

/// Returns the metrics as `OpenMetrics` text.
pub(super) fn metrics_text(families: Vec<MetricFamily>) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Scrape(families)));
    let mut text = String::new();
    text::encode(&mut text, &registry)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use schedd_schedule::time::time_histogram::TimeHistogram;

    #[test]
    fn metrics_have_escaped_labels_and_rising_buckets_and_are_named_without_samples() {
        const BOUNDS: &[Duration] = &[Duration::from_secs(1)];
        let times = TimeHistogram::new(BOUNDS);
        times.add(Duration::from_millis(500));
        times.add(Duration::from_secs(2));
        let families = vec![
            MetricFamily::counter("a", "Counts a.", [(vec![("x", "\"\\\n".to_owned())], 3)]),
            MetricFamily::value("b", "Is b.", None),
            MetricFamily::value("c", "Is c.", Some(1.5)),
            MetricFamily::histogram("d", "Times d.", [(vec![], times.counts())]),
        ];
        let wanted = "# HELP a Counts a.\n# TYPE a counter\na_total{x=\"\\\"\\\\\\n\"} 3\n\
                      # HELP b Is b.\n# TYPE b gauge\n\
                      # HELP c Is c.\n# TYPE c gauge\nc 1.5\n\
                      # HELP d Times d.\n# TYPE d histogram\nd_sum 2.5\nd_count 2\n\
                      d_bucket{le=\"1.0\"} 1\nd_bucket{le=\"+Inf\"} 2\n# EOF\n";
        assert_eq!(metrics_text(families).unwrap(), wanted);
    }
}
