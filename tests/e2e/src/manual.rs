//! The commands of a manual, for tests that run them as they are written.

/// A command as a reader would type it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The heading that it stands below, without its number signs.
    pub heading: String,
    /// The whole line: lines that end in `\` are joined.
    pub line: String,
}

/// The commands of a Markdown text, in their order: lines that begin with `$ ` in blocks marked `console`, which may be part
/// of a list. What else is in such a block is output.
pub fn commands(markdown: &str) -> Vec<Command> {
    let mut inside = false;
    let mut goes_on = false;
    let mut heading = String::new();
    let mut found: Vec<Command> = Vec::new();
    for line in markdown.lines() {
        if line.starts_with('#') && !inside {
            line.trim_start_matches('#').trim().clone_into(&mut heading);
        }
        let line = line.trim_start();
        if line.starts_with("```") {
            inside = line == "```console";
            continue;
        }
        if !inside {
            continue;
        }
        let command = match (goes_on, line.strip_prefix("$ ")) {
            (true, _) => {
                let last = &mut found.last_mut().expect("the line before").line;
                last.push_str(line);
                last
            }
            (false, Some(command)) => {
                found.push(Command {
                    heading: heading.clone(),
                    line: command.to_owned(),
                });
                &mut found.last_mut().expect("just pushed").line
            }
            (false, None) => continue,
        };
        goes_on = command.ends_with('\\');
        if goes_on {
            command.pop();
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_as_a_reader_would_type_them() {
        let text = "# 0. Set up\n```console\n$ no\n```\n## Begin\n```console\n$ one --a \\\n    --b\nits output\n$ two\n# three\n```\n1. As well:\n\n   ```console\n   $ four \\\n     five\n   ```\n\
                    ```rust\n$ not this\n```\n";
        let found = commands(text);
        let found: Vec<_> = found
            .iter()
            .map(|command| (command.heading.as_str(), command.line.as_str()))
            .collect();
        let wanted = [
            ("0. Set up", "no"),
            ("Begin", "one --a --b"),
            ("Begin", "two"),
            ("Begin", "four five"),
        ];
        assert_eq!(found, wanted);
    }
}
