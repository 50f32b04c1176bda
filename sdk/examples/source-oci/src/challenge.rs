//! What a registry wants, as its `WWW-Authenticate` says.

/// How to get in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Challenge {
    Basic,
    /// A token from this URL.
    Bearer {
        url: String,
    },
}

impl Challenge {
    /// The challenge in a response's headers, if there is one that is understood.
    pub fn of(headers: &[(String, String)]) -> Option<Self> {
        let (_, value) = headers
            .iter()
            .find(|(name, _)| name == "www-authenticate")?;
        let (scheme, rest) = value.split_once(' ').unwrap_or((value, ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Challenge::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let of = |wanted: &str| {
            let begin = rest.find(&format!("{wanted}=\""))? + wanted.len() + 2;
            rest[begin..].split('"').next()
        };
        let realm = of("realm")?;
        let query: Vec<String> = ["service", "scope"]
            .into_iter()
            .filter_map(|name| Some(format!("{name}={}", encoded(of(name)?))))
            .collect();
        let sign = if realm.contains('?') { '&' } else { '?' };
        Some(Challenge::Bearer {
            url: format!("{realm}{sign}{}", query.join("&")),
        })
    }
}

fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                char::from(byte).to_string()
            }
            other => format!("%{other:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_names_the_token_server_and_what_for() {
        let of = |value: &str| Challenge::of(&[("www-authenticate".into(), value.into())]);
        let url =
            "https://auth.example/token?service=r.example&scope=repository%3Aa%2Fb%3Apull".into();
        assert_eq!(
            of(
                "Bearer realm=\"https://auth.example/token\",service=\"r.example\",scope=\"repository:a/b:pull\""
            ),
            Some(Challenge::Bearer { url })
        );
        assert_eq!(of("Basic realm=\"r\""), Some(Challenge::Basic));
        assert_eq!(of("Negotiate"), None);
        assert_eq!(Challenge::of(&[]), None);
    }
}
