//! The figures, for people and for programs.

use comfy_table::{Attribute, Cell, CellAlignment, ContentArrangement, Table, presets};
use serde_json::{Value, json};

use crate::samples::Samples;

/// Columns where the output is no terminal.
const WIDTH: u16 = 150;

/// One figure.
pub struct Row {
    pub figure: String,
    pub ours: Samples,
    /// The same by other means, measured in the same run.
    pub peer: Option<Samples>,
    /// What the Pulumi Kubernetes Operator once needed, on a machine of this size; recorded, not measured here.
    pub recorded: Option<&'static str>,
    /// What we want.
    pub goal: Option<&'static str>,
    /// What was done, and what the peer is.
    pub how: String,
}

impl Row {
    pub fn new(figure: impl Into<String>, ours: Samples, how: impl Into<String>) -> Self {
        Row {
            figure: figure.into(),
            ours,
            peer: None,
            recorded: None,
            goal: None,
            how: how.into(),
        }
    }

    #[must_use]
    pub fn beside(self, peer: Samples) -> Self {
        Row {
            peer: Some(peer),
            ..self
        }
    }

    /// Sets the Pulumi Kubernetes Operator's recorded figure and our goal beside it; empty where there is none.
    #[must_use]
    pub fn against(self, recorded: &'static str, goal: &'static str) -> Self {
        let some = |text: &'static str| (!text.is_empty()).then_some(text);
        Row {
            recorded: some(recorded),
            goal: some(goal),
            ..self
        }
    }

    /// Our median over the peer's.
    fn ratio(&self) -> Option<f64> {
        let (ours, peer) = (self.ours.median()?, self.peer.as_ref()?.median()?);
        (peer != 0.0).then(|| ours / peer)
    }
}

/// The table. Three numbers are min, median and max.
pub fn text(rows: &[Row]) -> String {
    let mut table = Table::new();
    table
        .load_preset(presets::UTF8_HORIZONTAL_ONLY)
        .set_content_arrangement(ContentArrangement::Dynamic);
    if table.width().is_none() {
        table.set_width(WIDTH);
    }
    let recorded = rows
        .iter()
        .any(|row| row.recorded.is_some() || row.goal.is_some());
    let mut header = vec!["figure", "ours", "peer", "ratio", "n"];
    if recorded {
        header.extend(["PKO", "goal"]);
    }
    header.push("how");
    table.set_header(
        header
            .into_iter()
            .map(|word| Cell::new(word).add_attribute(Attribute::Bold)),
    );
    for row in rows {
        let mut cells = vec![
            row.figure.clone(),
            row.ours.text(),
            row.peer.as_ref().map_or_else(String::new, Samples::text),
            row.ratio()
                .map_or_else(String::new, |ratio| format!("{ratio:.2}")),
            row.ours.count().to_string(),
        ];
        if recorded {
            cells.extend([row.recorded, row.goal].map(|text| text.unwrap_or_default().to_owned()));
        }
        cells.push(row.how.clone());
        table.add_row(cells);
    }
    for at in [3, 4] {
        if let Some(column) = table.column_mut(at) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut text =
        format!("{table}\nthree numbers: min / median / max; ratio: ours by peer, of the medians");
    if recorded {
        text += "\nPKO: the Pulumi Kubernetes Operator 2.9 on a real node with two processors, recorded once; compare what is \
                 beyond the peer";
    }
    if cfg!(debug_assertions) {
        text += "\nNOT OPTIMISED: this is a debug build, its figures of our own code mean little";
    }
    text
}

/// Everything as one document: seconds, bytes and counts per second as plain numbers.
pub fn json(
    rows: &[Row],
    skipped: &[(String, String)],
    failed: &[(String, String)],
    quick: bool,
) -> Value {
    let figures: Vec<Value> = rows
        .iter()
        .map(|row| {
            json!({
                "figure": row.figure,
                "ours": row.ours.json(),
                "peer": row.peer.as_ref().map(Samples::json),
                "ratio": row.ratio(),
                "recorded": row.recorded,
                "goal": row.goal,
                "how": row.how,
            })
        })
        .collect();
    let named = |all: &[(String, String)]| -> Vec<Value> {
        let object =
            |(name, reason): &(String, String)| json!({"benchmark": name, "reason": reason});
        all.iter().map(object).collect()
    };
    json!({
        "quick": quick,
        "optimised": !cfg!(debug_assertions),
        "processors": std::thread::available_parallelism().map(usize::from).ok(),
        "figures": figures,
        "skipped": named(skipped),
        "failed": named(failed),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::Unit;

    #[test]
    fn a_row_is_set_beside_its_peer() {
        let row = Row::new("x", Samples::one(Unit::Seconds, 3.0), "how")
            .beside(Samples::one(Unit::Seconds, 2.0));
        assert_eq!(row.ratio(), Some(1.5));
        let shown = text(&[row]);
        assert!(
            shown.contains("3.00 s") && shown.contains("2.00 s") && shown.contains("1.50"),
            "{shown}"
        );
        assert!(!shown.contains("PKO"), "{shown}");
        let alone = Row::new("x", Samples::one(Unit::Seconds, 3.0), "");
        assert_eq!(alone.ratio(), None);
        let shown = text(&[alone.against("67 s", "2 s")]);
        assert!(shown.contains("67 s") && shown.contains("2 s"), "{shown}");
    }

    #[test]
    fn what_has_no_figure_is_in_the_document() {
        let skipped = [("local".to_owned(), "no pulumi".to_owned())];
        let document = json(&[], &skipped, &[], true);
        assert_eq!(document["skipped"][0]["reason"], "no pulumi");
        assert_eq!(document["figures"], json!([]));
    }
}
