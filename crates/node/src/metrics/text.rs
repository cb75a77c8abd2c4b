//! Prometheus's text format: families of samples, each with its type said once.

use std::fmt::{Display, Write};

use super::help;

/// The text of a scrape. Samples of a family follow each other.
#[derive(Default)]
pub(super) struct Text {
    out: String,
    family: String,
}

/// Labels of a sample: names and values.
pub(super) type Labels<'a> = &'a [(&'a str, &'a str)];

impl Text {
    /// Begins a family, unless it is the one that the last sample belongs to.
    fn begin(&mut self, name: &str, kind: &str) {
        if self.family != name {
            let help = help::of(name);
            if !help.is_empty() {
                let _ = writeln!(self.out, "# HELP {name} {help}");
            }
            let _ = writeln!(self.out, "# TYPE {name} {kind}");
            name.clone_into(&mut self.family);
        }
    }

    fn sample(&mut self, name: &str, suffix: &str, labels: Labels<'_>, value: impl Display) {
        self.out.push_str(name);
        self.out.push_str(suffix);
        for (i, (label, text)) in labels.iter().enumerate() {
            let _ = write!(self.out, "{}{label}=\"", if i == 0 { '{' } else { ',' });
            self.escaped(text);
            self.out.push('"');
        }
        if !labels.is_empty() {
            self.out.push('}');
        }
        let _ = writeln!(self.out, " {value}");
    }

    /// The value of a label, which clients may have chosen.
    fn escaped(&mut self, text: &str) {
        for c in text.chars() {
            match c {
                '\\' => self.out.push_str("\\\\"),
                '"' => self.out.push_str("\\\""),
                '\n' => self.out.push_str("\\n"),
                c => self.out.push(c),
            }
        }
    }

    pub(super) fn gauge(&mut self, name: &str, labels: Labels<'_>, value: impl Display) {
        self.begin(name, "gauge");
        self.sample(name, "", labels, value);
    }

    pub(super) fn counter(&mut self, name: &str, labels: Labels<'_>, value: impl Display) {
        self.begin(name, "counter");
        self.sample(name, "", labels, value);
    }

    /// `quantiles`: each as the text of a number from 0 to 100 as redis_exporter has them, and its value.
    pub(super) fn summary(
        &mut self,
        name: &str,
        label: (&str, &str),
        quantiles: &[(&str, &str)],
        (count, sum): (&str, &str),
    ) {
        self.begin(name, "summary");
        for (quantile, value) in quantiles {
            self.sample(name, "", &[label, ("quantile", quantile)], value);
        }
        self.sample(name, "_sum", &[label], sum);
        self.sample(name, "_count", &[label], count);
    }

    /// `buckets`: upper bounds and how many do not exceed them, growing.
    pub(super) fn histogram<B: Display>(
        &mut self,
        name: &str,
        label: (&str, &str),
        buckets: impl IntoIterator<Item = (B, u64)>,
        (count, sum): (u64, f64),
    ) {
        self.begin(name, "histogram");
        for (bound, within) in buckets {
            self.sample(name, "_bucket", &[label, ("le", &bound.to_string())], within);
        }
        self.sample(name, "_bucket", &[label, ("le", "+Inf")], count);
        self.sample(name, "_sum", &[label], sum);
        self.sample(name, "_count", &[label], count);
    }

    pub(super) fn finish(self) -> String {
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_say_their_type_once() {
        let mut text = Text::default();
        text.gauge("redis_up", &[], 1);
        text.counter("b_total", &[("err", "x\"\\\n")], 2);
        text.counter("b_total", &[("err", "y"), ("z", "1")], 3);
        text.histogram("c", ("cmd", "get"), [(1, 1), (4, 3)], (5, 0.5));
        text.summary("d", ("cmd", "get"), &[("50", "1.5")], ("7", "9"));
        let expected = "# HELP redis_up Always 1: the server answers.\n# TYPE redis_up gauge\nredis_up 1\n# TYPE b_total counter\nb_total{err=\"x\\\"\\\\\\n\"} 2\n\
            b_total{err=\"y\",z=\"1\"} 3\n# TYPE c histogram\nc_bucket{cmd=\"get\",le=\"1\"} 1\n\
            c_bucket{cmd=\"get\",le=\"4\"} 3\nc_bucket{cmd=\"get\",le=\"+Inf\"} 5\nc_sum{cmd=\"get\"} 0.5\n\
            c_count{cmd=\"get\"} 5\n# TYPE d summary\nd{cmd=\"get\",quantile=\"50\"} 1.5\nd_sum{cmd=\"get\"} 9\n\
            d_count{cmd=\"get\"} 7\n";
        assert_eq!(text.finish(), expected);
    }
}
