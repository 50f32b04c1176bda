//! The two text formats: OpenMetrics, and the older one that whoever asks for nothing in particular gets.

use std::fmt::Write;

/// A format and how HTTP names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Text,
    OpenMetrics,
}

impl Format {
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Text => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// What an `Accept` header prefers of the two.
    pub fn accepted(accept: &str) -> Format {
        let (mut open, mut text) = (0.0_f64, 0.0_f64);
        for range in accept.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default().to_ascii_lowercase();
            let weight = parts
                .filter_map(|part| part.split_once('='))
                .find(|(name, _)| name.trim().eq_ignore_ascii_case("q"))
                .map_or(1.0, |(_, value)| value.trim().parse().unwrap_or(0.0));
            match media.as_str() {
                "application/openmetrics-text" => open = open.max(weight),
                "text/plain" => text = text.max(weight),
                _ => {}
            }
        }
        if open > text {
            Format::OpenMetrics
        } else {
            Format::Text
        }
    }
}

/// OpenMetrics as the text format 0.0.4: there a counter's family has the name of its samples, and neither units nor the
/// end are stated.
pub fn older(open: &str) -> String {
    let mut text = String::with_capacity(open.len());
    // The help comes before the type, and its name depends on it.
    let mut help: Option<(&str, &str)> = None;
    for line in open.lines() {
        if line == "# EOF" || line.starts_with("# UNIT ") {
            continue;
        }
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ');
            continue;
        }
        let Some((name, kind)) = line
            .strip_prefix("# TYPE ")
            .and_then(|rest| rest.split_once(' '))
        else {
            text.push_str(line);
            text.push('\n');
            continue;
        };
        let (suffix, kind) = match kind {
            "counter" => ("_total", "counter"),
            "info" => ("_info", "gauge"),
            "unknown" => ("", "untyped"),
            other => ("", other),
        };
        // Writing to a String cannot fail.
        if let Some((helped, help)) = help.take()
            && helped == name
        {
            let _ = writeln!(text, "# HELP {name}{suffix} {help}");
        }
        let _ = writeln!(text, "# TYPE {name}{suffix} {kind}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prometheus_gets_openmetrics_and_curl_the_older_format() {
        let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
            application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.2,*/*;q=0.1";
        assert_eq!(Format::accepted(prometheus), Format::OpenMetrics);
        assert_eq!(Format::accepted("*/*"), Format::Text);
        assert_eq!(Format::accepted(""), Format::Text);
        assert_eq!(
            Format::accepted("application/openmetrics-text;q=0, text/plain"),
            Format::Text
        );
        assert_eq!(
            Format::accepted("text/plain;q=0.5, application/openmetrics-text;q=0.3"),
            Format::Text
        );
    }

    #[test]
    fn a_counters_family_is_named_like_its_samples() {
        let open = "# HELP a Things.\n# TYPE a counter\n# UNIT a seconds\na_total{x=\"# EOF\"} 3\n\
            # HELP b Build.\n# TYPE b info\nb_info{v=\"1\"} 1\n# TYPE c gauge\nc 2\n# EOF\n";
        assert_eq!(
            older(open),
            "# HELP a_total Things.\n# TYPE a_total counter\na_total{x=\"# EOF\"} 3\n\
            # HELP b_info Build.\n# TYPE b_info gauge\nb_info{v=\"1\"} 1\n# TYPE c gauge\nc 2\n"
        );
    }
}
