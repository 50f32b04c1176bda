//! Resources that the `pulumi` container asks for where nobody says more.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use windlass_api::ResourceRequirements;

/// Requests, where none is stated: enough for the agent and a small program.
const REQUESTS: &[(&str, &str)] = &[("cpu", "100m"), ("memory", "64Mi")];

/// Adds what is not requested. A limit below the default becomes the request, for a pod may not ask for more than it
/// may have.
pub(crate) fn set_requests(resources: &mut ResourceRequirements) {
    let ResourceRequirements {
        requests,
        limits,
        claims: _,
    } = resources;
    let requests = requests.get_or_insert_default();
    for (name, default) in REQUESTS {
        let default = Quantity((*default).to_owned());
        let limit = limits.as_ref().and_then(|limits| limits.get(*name));
        let wanted = match limit {
            Some(limit) if amount(limit) < amount(&default) => limit.clone(),
            _ => default,
        };
        requests.entry((*name).to_owned()).or_insert(wanted);
    }
}

/// The amount that a quantity stands for; None if it cannot be read, which the API server will say.
fn amount(quantity: &Quantity) -> Option<f64> {
    let text = quantity.0.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | '+' | '-'))
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let factor = match suffix {
        "n" => 1e-9,
        "u" => 1e-6,
        "m" => 1e-3,
        "" => 1.0,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "P" => 1e15,
        "E" => 1e18,
        "Ki" => 1024.0,
        "Mi" => 1024_f64.powi(2),
        "Gi" => 1024_f64.powi(3),
        "Ti" => 1024_f64.powi(4),
        "Pi" => 1024_f64.powi(5),
        "Ei" => 1024_f64.powi(6),
        // Scientific notation, as in 1e9.
        _ => return text.parse().ok(),
    };
    Some(number.parse::<f64>().ok()? * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_never_above_its_limit() {
        for (limit, expected) in [
            (None, "64Mi"),
            (Some("1Gi"), "64Mi"),
            (Some("64Mi"), "64Mi"),
            (Some("32Mi"), "32Mi"),
            (Some("50000k"), "50000k"),
            (Some("68M"), "64Mi"),
            (Some("1e6"), "1e6"),
            (Some("1e9"), "64Mi"),
            (Some("2E"), "64Mi"),
            (Some("1048576"), "1048576"),
        ] {
            let mut resources = ResourceRequirements {
                limits: limit
                    .map(|limit| [("memory".to_owned(), Quantity(limit.to_owned()))].into()),
                ..ResourceRequirements::default()
            };
            set_requests(&mut resources);
            let requests = resources.requests.unwrap_or_default();
            assert_eq!(requests["memory"].0, expected, "{limit:?}");
            assert_eq!(requests["cpu"].0, "100m");
        }
    }
}
