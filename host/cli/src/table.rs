//! Tables that a person enjoys reading, and the same rows for programs.

use std::io::IsTerminal;
use std::time::Duration;

use comfy_table::{Attribute, Cell, Color, ColumnConstraint, ContentArrangement, Table, Width};
use serde_json::{Value, json};
use windlass_local::StackRow;

use crate::{health, print};

/// Where there is no terminal to ask.
const WIDTH: u16 = 120;
/// Beyond this a table is harder to read, not easier.
const WIDEST: u16 = 140;
const NARROWEST: u16 = 80;
/// Outputs shown of one Stack.
const OUTPUTS: usize = 8;
const OUTPUT_LENGTH: usize = 56;

/// An empty table with this header.
pub fn new(header: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_preset(comfy_table::presets::UTF8_HORIZONTAL_ONLY)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width());
    if print::colours() {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    table.set_header(
        header
            .iter()
            .map(|word| Cell::new(word).add_attribute(Attribute::Bold)),
    );
    table
}

fn width() -> u16 {
    if !std::io::stdout().is_terminal() {
        return WIDTH;
    }
    // A terminal that nobody gave a size says 0.
    let told = Table::new().width().filter(|width| *width > 0);
    told.unwrap_or(WIDTH).clamp(NARROWEST, WIDEST)
}

/// All Stacks as a table, and below it what is wrong with those that are not well.
pub fn stacks(rows: &[StackRow]) -> String {
    let mut table = new(&[
        "STACK", "REVISION", "STATE", "HEALTH", "RES", "OUTPUTS", "TIME",
    ]);
    for row in rows {
        table.add_row(cells(row));
    }
    for column in [2, 3, 4, 6] {
        if let Some(column) = table.column_mut(column) {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    // A name that is broken up letter by letter helps nobody.
    let longest = |width: fn(&StackRow) -> usize| rows.iter().map(width).max().unwrap_or(0);
    keep_whole(&mut table, 0, longest(|row| name(row).chars().count()));
    keep_whole(&mut table, 1, longest(|row| row.source.chars().count()));
    keep_whole(&mut table, 5, 20);
    let mut text = table.trim_fmt();
    let notes: Vec<String> = rows.iter().filter_map(note).collect();
    if !notes.is_empty() {
        text.push('\n');
        text.push_str(&notes.join("\n"));
    }
    text
}

/// As wide as its content needs, but for content that would leave no room for the other columns.
fn keep_whole(table: &mut Table, column: usize, longest: usize) {
    const MOST: u16 = 28;
    // The padding on both sides counts.
    let width = u16::try_from(longest + 2).unwrap_or(MOST).clamp(9, MOST);
    if let Some(column) = table.column_mut(column) {
        column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(width)));
    }
}

fn cells(row: &StackRow) -> Vec<Cell> {
    let resources = row
        .resources
        .map_or_else(|| "-".to_owned(), |number| number.to_string());
    vec![
        Cell::new(name(row)).add_attribute(Attribute::Bold),
        Cell::new(or_dash(&row.source)),
        Cell::new(&row.state).fg(state_colour(row)),
        Cell::new(or_dash(&row.health)).fg(health::colour(&row.health)),
        Cell::new(resources).set_alignment(comfy_table::CellAlignment::Right),
        Cell::new(outputs(row)),
        Cell::new(time(row)),
    ]
}

/// Without the namespace where it is the usual one.
pub fn name(row: &StackRow) -> String {
    if row.namespace == "default" {
        row.name.clone()
    } else {
        format!("{}/{}", row.namespace, row.name)
    }
}

fn outputs(row: &StackRow) -> String {
    let mut lines: Vec<String> = row
        .outputs
        .iter()
        .take(OUTPUTS)
        .map(|(name, value)| {
            let name = print::printable(name);
            format!("{name}={}", print::value(value, OUTPUT_LENGTH))
        })
        .collect();
    if row.outputs.len() > OUTPUTS {
        lines.push(format!("… {} more", row.outputs.len() - OUTPUTS));
    }
    if lines.is_empty() {
        "-".to_owned()
    } else {
        lines.join("\n")
    }
}

fn time(row: &StackRow) -> String {
    let told = row
        .last_run_seconds
        .filter(|seconds| seconds.is_finite() && *seconds >= 0.0)
        .map(|seconds| print::duration(Duration::from_secs_f64(seconds)));
    match (&row.last_run_type, told) {
        (Some(operation), Some(told)) => format!("{operation} {told}"),
        (None, Some(told)) => told,
        (Some(operation), None) => operation.clone(),
        (None, None) => "-".to_owned(),
    }
}

fn or_dash(text: &str) -> &str {
    if text.is_empty() { "-" } else { text }
}

fn state_colour(row: &StackRow) -> Color {
    match row.state.as_str() {
        _ if is_well(row) => Color::Green,
        "Failed" | "Stalled" => Color::Red,
        "Suspended" => Color::Blue,
        _ => Color::Yellow,
    }
}

/// Ready, or gone as asked.
pub fn is_well(row: &StackRow) -> bool {
    row.ready || row.state == "Deleted"
}

fn note(row: &StackRow) -> Option<String> {
    if is_well(row) || (row.message.is_empty() && row.reason.is_empty()) {
        return None;
    }
    let message = print::printable(row.message.trim_end()).replace('\n', "\n    ");
    let reason = if row.reason.is_empty() {
        &row.state
    } else {
        &row.reason
    };
    Some(if message.is_empty() {
        format!("{}: {reason}", name(row))
    } else {
        format!("{}: {reason}: {message}", name(row))
    })
}

/// One line under the table: how many of what.
pub fn sum(rows: &[StackRow]) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for row in rows {
        match counts.iter_mut().find(|(state, _)| *state == row.state) {
            Some((_, number)) => *number += 1,
            None => counts.push((&row.state, 1)),
        }
    }
    let counts: Vec<String> = counts
        .iter()
        .map(|(state, number)| format!("{number} {}", state.to_lowercase()))
        .collect();
    format!(
        "{}: {}",
        print::count(rows.len(), "Stack"),
        counts.join(", ")
    )
}

/// The rows for programs, with a verdict over all of them.
pub fn stacks_json(rows: &[StackRow]) -> Value {
    json!({ "stacks": rows, "ready": rows.iter().all(is_well) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, ready: bool) -> StackRow {
        StackRow {
            namespace: "default".to_owned(),
            name: name.to_owned(),
            source: "main@1a2b3c4".to_owned(),
            revision: "1a2b3c4d".to_owned(),
            state: if ready { "Ready" } else { "Failed" }.to_owned(),
            reason: if ready { "" } else { "UpdateFailed" }.to_owned(),
            message: if ready { "" } else { "the disk is full" }.to_owned(),
            health: if ready { "Healthy" } else { "Degraded" }.to_owned(),
            health_message: String::new(),
            resources: Some(3),
            outputs: [
                ("url".to_owned(), json!("https://a.example")),
                ("password".to_owned(), json!("[secret]")),
            ]
            .into(),
            last_run_seconds: Some(2.04),
            last_run_type: Some("up".to_owned()),
            progress: None,
            ready,
        }
    }

    #[test]
    fn a_table_fits_its_width_and_says_what_is_wrong() {
        let text = stacks(&[row("network", true), row("app", false)]);
        assert!(
            text.lines().all(|line| line.chars().count() <= 120),
            "{text}"
        );
        assert!(text.contains("url=https://a.example"), "{text}");
        assert!(text.contains("password=[secret]"), "{text}");
        assert!(text.contains("up 2.0 s"), "{text}");
        assert!(
            text.ends_with("app: UpdateFailed: the disk is full"),
            "{text}"
        );
        assert!(
            !text.contains('\u{1b}'),
            "colours without a terminal: {text}"
        );
    }

    #[test]
    fn many_outputs_are_cut() {
        let mut many = row("a", true);
        many.outputs = (0..20).map(|n| (format!("o{n:02}"), json!(n))).collect();
        let text = stacks(&[many]);
        assert!(text.contains("o07=7") && !text.contains("o08"), "{text}");
        assert!(text.contains("… 12 more"), "{text}");
    }

    #[test]
    fn the_sum_counts_states() {
        let rows = [row("a", true), row("b", true), row("c", false)];
        assert_eq!(sum(&rows), "3 Stacks: 2 ready, 1 failed");
        assert_eq!(stacks_json(&rows)["ready"], json!(false));
        assert_eq!(stacks_json(&rows[..2])["ready"], json!(true));
    }
}
