//! Versions as `pulumi version` and `go version` print them.

use std::fmt;

/// Three numbers; what follows a `-` (a pre-release) makes a version older than the bare numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    major: u32,
    minor: u32,
    patch: u32,
    /// False for a pre-release; `false < true` gives the order.
    released: bool,
}

impl Version {
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self {
            major,
            minor,
            patch,
            released: true,
        }
    }

    /// Reads `v3.259.0`, `3.259.0`, `go1.26`, `v3.260.0-alpha.1+ab12`. A missing patch is 0.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let text = text
            .strip_prefix("go")
            .or_else(|| text.strip_prefix('v'))
            .unwrap_or(text);
        let text = text.split('+').next()?;
        let (numbers, released) = match text.split_once('-') {
            Some((numbers, _)) => (numbers, false),
            None => (text, true),
        };
        let mut parts = numbers.split('.').map(|part| part.parse::<u32>().ok());
        let version = Self {
            major: parts.next()??,
            minor: parts.next()??,
            patch: parts.next().unwrap_or(Some(0))?,
            released,
        };
        parts.next().is_none().then_some(version)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        if self.released {
            Ok(())
        } else {
            write!(f, " (pre-release)")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn reads_what_the_programs_print() {
        assert_eq!(Version::parse("v3.259.0"), Some(Version::new(3, 259, 0)));
        assert_eq!(Version::parse("3.259.0\n"), Some(Version::new(3, 259, 0)));
        assert_eq!(Version::parse("go1.26.8"), Some(Version::new(1, 26, 8)));
        assert_eq!(Version::parse("go1.26"), Some(Version::new(1, 26, 0)));
        assert_eq!(Version::parse("v3.1.0+dirty"), Some(Version::new(3, 1, 0)));
    }

    #[test]
    fn refuses_what_is_no_version() {
        for text in ["", "v", "3", "3.x.1", "1.2.3.4", "latest", "v-3.1.0"] {
            assert_eq!(Version::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn numbers_are_compared_as_numbers_and_a_pre_release_is_older() {
        let pinned = Version::new(3, 100, 0);
        assert!(Version::parse("v3.99.9") < Some(pinned));
        assert!(Version::parse("v3.100.0-alpha.1") < Some(pinned));
        assert!(Version::parse("v3.100.1-alpha.1") > Some(pinned));
        assert!(Version::parse("v4.0.0") > Some(pinned));
    }
}
