//! Patterns for kinds in descriptors: `*.example.org/*`, `apps/{Deployment,StatefulSet}`.
//!
//! `*` (and `**`) stands for any characters, slashes too; `?` for one; `[abc]`, `[a-z]` and `[!abc]` for one of or none of
//! these; `{a,b}` for either; `\` takes the next character as it is. It is the syntax of the patterns in Argo CD's
//! configuration.

use std::fmt;

/// What a pattern may stand for once its `{,}` are written out; more is refused.
const MAX_ALTERNATIVES: usize = 256;

/// Longest pattern, bytes.
const MAX_LENGTH: usize = 512;

/// A pattern that can be matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    /// The pattern without `{,}`, once for each way to choose.
    alternatives: Vec<Vec<Token>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    /// Any number of characters.
    Any,
    One,
    Char(char),
    Set {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

/// Why a text is no pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadGlob(&'static str);

impl fmt::Display for BadGlob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for BadGlob {}

/// Whether a name of a kind is a pattern. Names of groups and kinds have none of these characters.
pub fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '[', '{', '\\'])
}

impl Glob {
    /// # Errors
    /// An unfinished `[`, `{` or `\`; a pattern that stands for too much.
    pub fn new(pattern: &str) -> Result<Self, BadGlob> {
        if pattern.len() > MAX_LENGTH {
            return Err(BadGlob("longer than 512 bytes"));
        }
        let mut rest: Vec<char> = pattern.chars().rev().collect();
        let alternatives = sequence(&mut rest, 0)?;
        Ok(Glob { alternatives })
    }

    /// Whether the whole of `text` is what the pattern stands for.
    pub fn matches(&self, text: &str) -> bool {
        let text: Vec<char> = text.chars().collect();
        self.alternatives
            .iter()
            .any(|tokens| matches(tokens, &text))
    }

    /// How much of what it matches is said by the pattern itself: characters of its shortest alternative that stand for
    /// one character. The pattern with more says more.
    pub fn literals(&self) -> usize {
        let count = |tokens: &Vec<Token>| tokens.iter().filter(|it| **it != Token::Any).count();
        self.alternatives.iter().map(count).min().unwrap_or(0)
    }
}

/// Reads until the end, or at `depth` above 0 until the `,` or `}` that ends an alternative, which stays.
fn sequence(rest: &mut Vec<char>, depth: usize) -> Result<Vec<Vec<Token>>, BadGlob> {
    let mut found: Vec<Vec<Token>> = vec![Vec::new()];
    while let Some(&next) = rest.last() {
        if depth > 0 && matches!(next, ',' | '}') {
            return Ok(found);
        }
        rest.pop();
        let token = match next {
            '*' => Token::Any,
            '?' => Token::One,
            '[' => set(rest)?,
            '\\' => Token::Char(rest.pop().ok_or(BadGlob("ends in a backslash"))?),
            '{' => {
                let choices = choices(rest, depth + 1)?;
                if found.len() * choices.len() > MAX_ALTERNATIVES {
                    return Err(BadGlob("stands for more than 256 patterns"));
                }
                found = found
                    .iter()
                    .flat_map(|head| choices.iter().map(|tail| [&head[..], tail].concat()))
                    .collect();
                continue;
            }
            other => Token::Char(other),
        };
        for tokens in &mut found {
            tokens.push(token.clone());
        }
    }
    if depth > 0 {
        return Err(BadGlob("a { without its }"));
    }
    Ok(found)
}

fn choices(rest: &mut Vec<char>, depth: usize) -> Result<Vec<Vec<Token>>, BadGlob> {
    let mut found = Vec::new();
    loop {
        found.extend(sequence(rest, depth)?);
        if found.len() > MAX_ALTERNATIVES {
            return Err(BadGlob("stands for more than 256 patterns"));
        }
        if rest.pop() == Some('}') {
            return Ok(found);
        }
    }
}

fn set(rest: &mut Vec<char>) -> Result<Token, BadGlob> {
    const UNFINISHED: BadGlob = BadGlob("a [ without its ]");
    let negated = rest.last() == Some(&'!');
    if negated {
        rest.pop();
    }
    let mut ranges = Vec::new();
    loop {
        let low = match rest.pop().ok_or(UNFINISHED)? {
            ']' if ranges.is_empty() => return Err(BadGlob("an empty []")),
            ']' => return Ok(Token::Set { negated, ranges }),
            '\\' => rest.pop().ok_or(UNFINISHED)?,
            other => other,
        };
        let mut high = low;
        if rest.last() == Some(&'-') && rest.iter().rev().nth(1).is_some_and(|it| *it != ']') {
            rest.pop();
            high = rest.pop().ok_or(UNFINISHED)?;
            if high < low {
                return Err(BadGlob("a range from high to low"));
            }
        }
        ranges.push((low, high));
    }
}

/// Goes back to the last `*` only: enough, since whatever an earlier one could take a later one can.
fn matches(tokens: &[Token], text: &[char]) -> bool {
    let (mut at, mut seen) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while seen < text.len() {
        match tokens.get(at) {
            Some(Token::Any) => {
                star = Some((at, seen));
                at += 1;
                continue;
            }
            Some(token) if is(token, text[seen]) => {
                at += 1;
                seen += 1;
                continue;
            }
            _ => {}
        }
        let Some((place, taken)) = star else {
            return false;
        };
        star = Some((place, taken + 1));
        at = place + 1;
        seen = taken + 1;
    }
    tokens[at..].iter().all(|token| *token == Token::Any)
}

fn is(token: &Token, found: char) -> bool {
    match token {
        Token::Any => false,
        Token::One => true,
        Token::Char(wanted) => *wanted == found,
        Token::Set { negated, ranges } => {
            let inside = ranges
                .iter()
                .any(|(low, high)| (*low..=*high).contains(&found));
            inside != *negated
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_patterns_stand_for() {
        for (pattern, text, wanted) in [
            ("*/*", "apps/Deployment", true),
            ("*/*", "Pod", false),
            ("*", "apps/Deployment", true),
            ("*", "", true),
            ("*.upbound.io/*", "s3.aws.upbound.io/Bucket", true),
            ("*.upbound.io/*", "upbound.io/Bucket", false),
            ("apps/{Deployment,Stateful*}", "apps/StatefulSet", true),
            ("apps/{Deployment,Stateful*}", "apps/DaemonSet", false),
            ("{a,{b,c}d}/X", "cd/X", true),
            ("{a,{b,c}d}/X", "c/X", false),
            ("{,a}b", "b", true),
            ("?at", "cat", true),
            ("?at", "at", false),
            ("[a-c][!x]z", "bbz", true),
            ("[a-c][!x]z", "bxz", false),
            ("[a-c][!x]z", "dbz", false),
            ("[-a]", "-", true),
            (r"\*x", "*x", true),
            (r"\*x", "ax", false),
            ("a*b*c", "aXbXbYc", true),
            ("a*b*c", "aXbXbY", false),
            ("**/Kind", "a/b/Kind", true),
        ] {
            assert_eq!(
                Glob::new(pattern).unwrap().matches(text),
                wanted,
                "{pattern} {text}"
            );
        }
    }

    #[test]
    fn what_is_no_pattern() {
        let many = "{a,b}".repeat(9);
        for pattern in ["[", "[]", "[a", "[b-a]", "{a", "{a,{b}", "a\\", &many] {
            assert!(Glob::new(pattern).is_err(), "{pattern}");
        }
        assert!(Glob::new(&"*".repeat(513)).is_err());
        // A comma or a brace that opens nothing is itself.
        assert!(Glob::new("a,b}").unwrap().matches("a,b}"));
    }

    #[test]
    fn many_stars_cost_little() {
        let pattern = format!("{}b", "*a".repeat(100));
        assert!(!Glob::new(&pattern).unwrap().matches(&"a".repeat(5000)));
    }

    #[test]
    fn the_pattern_that_says_more() {
        let literals = |text: &str| Glob::new(text).unwrap().literals();
        assert!(literals("*.aws.upbound.io/*") > literals("*.upbound.io/*"));
        assert_eq!(literals("{a,abc}*"), 1);
    }
}
