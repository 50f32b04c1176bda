//! Outputs that are too large for the objects which hold them are left out, each as a whole.

use std::collections::BTreeMap;

use windlass_api::run::OutputValue;

/// What all values of a Stack may have together, in bytes as JSON. A Secret holds 1 MiB, and an object of the API 1.5 MiB.
const ROOM: usize = 900 * 1024;
/// What their names may have: they are in annotations too, each with a digest, and annotations have 256 KiB.
const ROOM_FOR_NAMES: usize = 160 * 1024;
/// What a digest adds to a name.
const DIGEST: usize = 72;
/// How many are named.
const NAMED: usize = 5;

/// Takes out the largest until the others fit; says which, if any.
pub fn fit(outputs: &mut BTreeMap<String, OutputValue>) -> Option<String> {
    let mut sizes: Vec<(usize, String)> = outputs
        .iter()
        .map(|(name, output)| (output.value.to_string().len(), name.clone()))
        .collect();
    let mut values: usize = sizes.iter().map(|(size, _)| size).sum();
    let mut names: usize = outputs.keys().map(|name| name.len() + DIGEST).sum();
    // The largest last; of equals, the first in the alphabet stays.
    sizes.sort_unstable();
    let mut left_out = Vec::new();
    while (values > ROOM || names > ROOM_FOR_NAMES)
        && let Some((size, name)) = sizes.pop()
    {
        values -= size;
        names -= name.len() + DIGEST;
        outputs.remove(&name);
        left_out.push((size, name));
    }
    if left_out.is_empty() {
        return None;
    }
    let mut named: Vec<String> = left_out
        .iter()
        .take(NAMED)
        .map(|(size, name)| format!("{name:?} ({} KiB)", size.div_ceil(1024)))
        .collect();
    if left_out.len() > NAMED {
        named.push(format!("{} more", left_out.len() - NAMED));
    }
    Some(format!(
        "these outputs are in no status and no Secret, for all of them together are larger than {} KiB: {}; keep such \
         values in a place made for them, and make their address an output",
        ROOM / 1024,
        named.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn outputs(sizes: &[(&str, usize)]) -> BTreeMap<String, OutputValue> {
        let output = |size: usize| OutputValue {
            // With its quotes.
            value: Value::String("x".repeat(size - 2)),
            secret: false,
        };
        let pair = |(name, size): &(&str, usize)| ((*name).to_owned(), output(*size));
        sizes.iter().map(pair).collect()
    }

    fn kept(sizes: &[(&str, usize)]) -> (Vec<String>, Option<String>) {
        let mut all = outputs(sizes);
        let said = fit(&mut all);
        (all.into_keys().collect(), said)
    }

    #[test]
    fn what_fits_stays() {
        assert_eq!(kept(&[]), (vec![], None));
        let (names, said) = kept(&[("a", ROOM - 10), ("b", 10)]);
        assert_eq!(names, ["a", "b"]);
        assert_eq!(said, None);
    }

    #[test]
    fn the_largest_go_until_the_others_fit_and_are_named() {
        let (names, said) = kept(&[
            ("a", ROOM / 2),
            ("big", 20 << 20),
            ("c", ROOM / 2),
            ("d", 3),
        ]);
        assert_eq!(names, ["a", "d"]);
        let said = said.unwrap_or_default();
        assert!(
            said.contains("\"big\" (20480 KiB), \"c\" (450 KiB);"),
            "{said}"
        );
        assert!(!said.contains("xxx"), "{said}");
    }

    #[test]
    fn very_many_are_too_many_however_small() {
        let mut all: BTreeMap<String, OutputValue> = BTreeMap::new();
        for number in 0..10_000 {
            all.extend(outputs(&[(&format!("output{number}"), 4)]));
        }
        let said = fit(&mut all).unwrap_or_default();
        assert!(said.contains("more"), "{said}");
        let names: usize = all.keys().map(|name| name.len() + DIGEST).sum();
        assert!(
            names <= ROOM_FOR_NAMES && all.len() > 1_000,
            "{}",
            all.len()
        );
    }
}
