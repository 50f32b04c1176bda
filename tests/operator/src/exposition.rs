//! Reads metrics as Prometheus does (text format 0.0.4), and more strictly: whatever is odd is an error.

use std::collections::{BTreeMap, BTreeSet};

/// Samples by name and sorted labels, as in `name{a="b",c="d"}`; without labels by name alone.
pub type Samples = BTreeMap<String, f64>;

/// Reads everything.
///
/// # Errors
/// The line that is not as it should be, and why.
pub fn parse(text: &str) -> Result<Samples, String> {
    let mut samples = Samples::new();
    let mut families = BTreeSet::new();
    // Name and type of the family that samples belong to now.
    let mut family: Option<(String, String)> = None;
    let mut help: Option<String> = None;
    if !text.is_empty() && !text.ends_with('\n') {
        return Err("the last line has no end".to_owned());
    }
    for line in text.lines() {
        let wrong = |why: &str| format!("{why}: {line}");
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, text) = rest
                .split_once(' ')
                .ok_or_else(|| wrong("help of nothing"))?;
            if text.is_empty() || help.is_some() {
                return Err(wrong("help without text, or help without a type before"));
            }
            help = Some(name.to_owned());
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').ok_or_else(|| wrong("no type"))?;
            if !["counter", "gauge", "histogram"].contains(&kind) {
                return Err(wrong("unknown type"));
            }
            if help.take().as_deref() != Some(name) {
                return Err(wrong("the help before is missing or another's"));
            }
            if !families.insert(name.to_owned()) {
                return Err(wrong("a family comes twice"));
            }
            if (kind == "counter") != name.ends_with("_total") {
                return Err(wrong("counters, and only they, end in _total"));
            }
            family = Some((name.to_owned(), kind.to_owned()));
        } else {
            let (name, labels, value) = sample(line).map_err(|why| wrong(&why))?;
            let (of, kind) = family.as_ref().ok_or_else(|| wrong("of no family"))?;
            let suffix = name.strip_prefix(of.as_str());
            let belongs = match kind.as_str() {
                "histogram" => matches!(suffix, Some("_bucket" | "_sum" | "_count")),
                _ => suffix == Some(""),
            };
            if !belongs {
                return Err(wrong("a sample of another family"));
            }
            if kind != "gauge" && (value < 0.0 || value.is_nan()) {
                return Err(wrong("a count below nothing"));
            }
            if samples.insert(named(&name, &labels), value).is_some() {
                return Err(wrong("a sample comes twice"));
            }
        }
    }
    histograms(&samples)?;
    Ok(samples)
}

/// Buckets grow, and the last of them is the count.
fn histograms(samples: &Samples) -> Result<(), String> {
    let mut buckets: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for (key, value) in samples {
        let Ok((name, mut labels, _)) = sample(&format!("{key} 0")) else {
            continue;
        };
        if let Some(name) = name.strip_suffix("_bucket")
            && let Some(bound) = labels.remove("le")
        {
            let bound = match bound.as_str() {
                "+Inf" => f64::INFINITY,
                bound => bound.parse().map_err(|_| format!("{key}: no bound"))?,
            };
            let count = named(&format!("{name}_count"), &labels);
            buckets.entry(count).or_default().push((bound, *value));
        }
    }
    for (count, mut buckets) in buckets {
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        let grows = buckets.windows(2).all(|pair| pair[0].1 <= pair[1].1);
        let last = buckets.last().copied().unwrap_or_default();
        if !grows || last.0 != f64::INFINITY || samples.get(&count) != Some(&last.1) {
            return Err(format!("{count}: its buckets are {buckets:?}"));
        }
    }
    Ok(())
}

fn named(name: &str, labels: &BTreeMap<String, String>) -> String {
    if labels.is_empty() {
        return name.to_owned();
    }
    let labels: Vec<String> = labels
        .iter()
        .map(|(name, value)| format!("{name}={value:?}"))
        .collect();
    format!("{name}{{{}}}", labels.join(","))
}

type Sample = (String, BTreeMap<String, String>, f64);

fn sample(line: &str) -> Result<Sample, String> {
    let end = line
        .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'))
        .ok_or("no value")?;
    let (name, mut rest) = line.split_at(end);
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return Err("no name".to_owned());
    }
    let mut labels = BTreeMap::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, after) = rest.split_once("=\"").ok_or("a label without a value")?;
            let good = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if label.is_empty() || !label.chars().all(good) {
                return Err(format!("{label:?} is no label"));
            }
            let (value, after) = quoted(after)?;
            if labels.insert(label.to_owned(), value).is_some() {
                return Err(format!("label {label} twice"));
            }
            match after.strip_prefix(',') {
                Some(more) => rest = more,
                None => {
                    rest = after.strip_prefix('}').ok_or("labels without an end")?;
                    break;
                }
            }
        }
    }
    let value = rest.strip_prefix(' ').ok_or("no space before the value")?;
    let value = value
        .parse()
        .map_err(|_| format!("{value:?} is no number"))?;
    Ok((name.to_owned(), labels, value))
}

/// The text before an unescaped quote, and what comes after it.
fn quoted(text: &str) -> Result<(String, &str), String> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Ok((value, &text[at + 1..])),
            '\\' => match characters.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, escaped @ ('\\' | '"'))) => value.push(escaped),
                _ => return Err("an unknown escape".to_owned()),
            },
            other => value.push(other),
        }
    }
    Err("a value without an end".to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_right_is_read() {
        let text = "# HELP a_total A.\n# TYPE a_total counter\na_total{y=\"2\",x=\"1,}\\\"\"} 3\n\
            # HELP h H.\n# TYPE h histogram\nh_sum 2.5\nh_count 2\nh_bucket{le=\"1.0\"} 1\n\
            h_bucket{le=\"+Inf\"} 2\n";
        let samples = parse(text).unwrap();
        assert_eq!(samples[r#"a_total{x="1,}\"",y="2"}"#], 3.0);
        assert_eq!(samples["h_count"], 2.0);
    }

    #[test]
    fn what_is_odd_is_refused() {
        let head = "# HELP a A.\n# TYPE a gauge\n";
        for odd in [
            "a 1\n",
            "# TYPE a gauge\na 1\n",
            "# HELP a_total A.\n# TYPE a_total gauge\n",
            &format!("{head}a 1\na 2\n"),
            &format!("{head}b 1\n"),
            &format!("{head}a{{x=\"1}} 1\n"),
            &format!("{head}a{{x=\"1\",x=\"2\"}} 1\n"),
            &format!("{head}a one\n"),
            &format!("{head}a 1"),
            &format!("{head}{head}"),
            "# HELP h H.\n# TYPE h histogram\nh_sum 1\nh_count 3\nh_bucket{le=\"+Inf\"} 2\n",
        ] {
            assert!(parse(odd).is_err(), "{odd}");
        }
    }
}
