//! Takes secrets out of an HTTP response before anyone else sees it.

use serde_json::Value;
use windlass_sdk::HttpResponse;
use zeroize::Zeroizing;

/// Texts shorter than this are taken out where they are a whole value, not where they are part of one: `1` is part of
/// nearly everything.
const SHORT: usize = 8;

/// A response without the captured values, and these: one for each pointer.
pub struct Taken {
    pub response: HttpResponse,
    pub values: Vec<Option<Zeroizing<Vec<u8>>>>,
}

/// Captures what stands at the pointers. Null takes its place, and the place of every other value that contains it.
pub fn take(response: HttpResponse, pointers: &[String]) -> Taken {
    let HttpResponse {
        status,
        mut headers,
        body,
    } = response;
    let body = Zeroizing::new(body);
    let Ok(mut document) = serde_json::from_slice::<Value>(&body) else {
        // Secrets may stand in it in a form that is not understood.
        let response = HttpResponse {
            status,
            headers: Vec::new(),
            body: Vec::new(),
        };
        let values = pointers.iter().map(|_| None).collect();
        return Taken { response, values };
    };
    let found: Vec<Option<Value>> = pointers
        .iter()
        .map(|pointer| {
            document
                .pointer(pointer)
                .filter(|value| !value.is_null())
                .cloned()
        })
        .collect();
    for pointer in pointers {
        if let Some(place) = document.pointer_mut(pointer) {
            *place = Value::Null;
        }
    }
    let texts: Vec<Option<Zeroizing<String>>> =
        found.iter().map(|it| it.as_ref().map(text)).collect();
    for text in texts.iter().flatten() {
        scrub(&mut document, text);
        headers.retain(|(_, value)| !holds(value, text));
    }
    let values = texts
        .into_iter()
        .map(|text| text.map(|text| Zeroizing::new(text.as_bytes().to_vec())))
        .collect();
    let response = HttpResponse {
        status,
        headers,
        body: document.to_string().into_bytes(),
    };
    Taken { response, values }
}

fn text(value: &Value) -> Zeroizing<String> {
    Zeroizing::new(match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    })
}

fn scrub(value: &mut Value, secret: &str) {
    match value {
        Value::String(text) if holds(text, secret) => *value = Value::Null,
        Value::Number(number) if number.to_string() == secret => *value = Value::Null,
        Value::Array(list) => list.iter_mut().for_each(|item| scrub(item, secret)),
        Value::Object(map) => {
            map.retain(|key, _| !holds(key, secret));
            map.values_mut().for_each(|item| scrub(item, secret));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn holds(text: &str, secret: &str) -> bool {
    text == secret || (secret.len() >= SHORT && text.contains(secret))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn taken(body: &str, pointers: &[&str]) -> (Value, Vec<Option<String>>, usize) {
        let response = HttpResponse {
            status: 201,
            headers: vec![
                ("x-token".into(), "Bearer canary-0001".into()),
                ("etag".into(), "1".into()),
            ],
            body: body.into(),
        };
        let pointers: Vec<String> = pointers.iter().map(|it| (*it).into()).collect();
        let Taken { response, values } = take(response, &pointers);
        let values = values
            .into_iter()
            .map(|value| value.map(|it| String::from_utf8_lossy(&it).into_owned()))
            .collect();
        (
            serde_json::from_slice(&response.body).unwrap_or_default(),
            values,
            response.headers.len(),
        )
    }

    #[test]
    fn values_come_out_wherever_they_stand() {
        let body = json!({"token": "canary-0001", "again": ["x canary-0001 y"], "canary-0001": 1,
            "expires_at": "soon", "n": 7, "m": [7, 8]});
        let (rest, values, headers) = taken(
            &body.to_string(),
            &["/token", "/n", "/none", "/expires_at/x"],
        );
        assert_eq!(
            rest,
            json!({"token": null, "again": [null], "expires_at": "soon", "n": null, "m": [null, 8]})
        );
        assert_eq!(
            values,
            [Some("canary-0001".into()), Some("7".into()), None, None]
        );
        assert_eq!(headers, 1);
    }

    #[test]
    fn one_pointer_inside_another_gives_both() {
        let (rest, values, _) = taken(r#"{"a": {"b": "canary-0001"}}"#, &["/a", "/a/b"]);
        assert_eq!(rest, json!({"a": null}));
        assert_eq!(
            values,
            [
                Some(r#"{"b":"canary-0001"}"#.into()),
                Some("canary-0001".into())
            ]
        );
    }

    #[test]
    fn what_is_not_understood_is_left_out() {
        let (rest, values, headers) = taken("access_token=canary-0001", &["/access_token"]);
        assert_eq!((rest, values, headers), (Value::Null, vec![None], 0));
    }
}
