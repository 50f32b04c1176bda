//! AWS Signature Version 4 for a GET without a body. The key never comes here: it is derived and spent by the host.

use sha2::{Digest, Sha256};
use windlass_sdk::{Credential, Derivation, Host, HttpRequest, Part, Secret, Signature};

const SIGNED: &str = "host;x-amz-content-sha256;x-amz-date";

/// Whose signature it is.
pub struct Signer<'a> {
    /// Public by nature, and stands in every request.
    pub access_key_id: Part<'a>,
    pub secret_access_key: &'a Secret,
    pub region: &'a str,
}

impl Signer<'_> {
    /// A GET of `path` (encoded) from `origin` (`https://host[:port]`), and what authorizes it.
    pub fn get(
        &self,
        host: &(impl Host + ?Sized),
        origin: &str,
        path: &str,
        now_ms: u64,
    ) -> (HttpRequest, Credential) {
        let (date, time) = date_and_time(now_ms);
        let stamp = format!("{date}T{time}Z");
        let empty = hex::encode(Sha256::digest(b""));
        let server = origin
            .split_once("://")
            .map_or(origin, |(_, server)| server);
        let canonical = format!(
            "GET\n{path}\n\nhost:{server}\nx-amz-content-sha256:{empty}\nx-amz-date:{stamp}\n\n{SIGNED}\n{empty}"
        );
        let scope = format!("{date}/{}/s3/aws4_request", self.region);
        let to_sign = format!(
            "AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{}",
            hex::encode(Sha256::digest(canonical))
        );
        let step = |key: &Secret, prefix: &str, what: &str| {
            host.derive(
                Derivation::HmacSha256,
                key,
                prefix.as_bytes(),
                what.as_bytes(),
            )
        };
        let key = step(self.secret_access_key, "AWS4", &date);
        let key = step(&key, "", self.region);
        let key = step(&key, "", "s3");
        let key = step(&key, "", "aws4_request");
        let signature = host.sign(Signature::HmacSha256, &key, to_sign.as_bytes());
        let rest = format!("/{scope}, SignedHeaders={SIGNED}, Signature=");
        let value = host.join(&[
            Part::Text("AWS4-HMAC-SHA256 Credential="),
            self.access_key_id,
            Part::Text(&rest),
            Part::Hex(&signature),
        ]);
        let request = HttpRequest {
            method: "GET".into(),
            url: format!("{origin}{path}"),
            headers: vec![
                ("x-amz-content-sha256".into(), empty),
                ("x-amz-date".into(), stamp),
            ],
            body: None,
        };
        let name = "Authorization".into();
        (request, Credential::Header { name, value })
    }
}

/// As SigV4 encodes a path: everything but unreserved characters and the slashes.
pub fn encoded(path: &str) -> String {
    path.bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => {
                char::from(byte).to_string()
            }
            other => format!("%{other:02X}"),
        })
        .collect()
}

/// `20261122` and `101500`, in UTC.
fn date_and_time(now_ms: u64) -> (String, String) {
    let seconds = now_ms / 1000;
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Days to a date of the proleptic Gregorian calendar, in years that begin in March.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (
        format!("{year:04}{month:02}{day:02}"),
        format!(
            "{:02}{:02}{:02}",
            second / 3600,
            second / 60 % 60,
            second % 60
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        for (seconds, date, time) in [
            (0, "19700101", "000000"),
            (951_782_400, "20000229", "000000"),
            (1_369_353_600, "20130524", "000000"),
            (1_735_689_599, "20241231", "235959"),
        ] {
            assert_eq!(
                date_and_time(seconds * 1000),
                (date.to_owned(), time.to_owned())
            );
        }
    }

    #[test]
    fn paths() {
        assert_eq!(encoded("/a b/ü+.tar.gz"), "/a%20b/%C3%BC%2B.tar.gz");
    }
}
