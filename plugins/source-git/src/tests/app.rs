//! GitHub Apps, by names: values and signatures are the host's, and tested with it.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use windlass_sdk::native::Answers;
use windlass_sdk::{
    Answer, Artifact, Asked, Credential, ErrorClass, Fault, Form, HttpRequest, HttpResponse,
    NamedPart, PluginError, Question, Recipe, Resolution, SecretName, Signature, SourceRequest,
};

use super::refs;
use crate::{github_app, resolve};

/// 2026-09-21T14:13:20Z
const NOW_MS: u64 = 1_790_000_000_000;

fn request() -> SourceRequest {
    SourceRequest {
        spec: json!({"projectRepo": "https://github.com/org/a", "branch": "main", "gitAuth": super::app()}),
        now_ms: NOW_MS,
        ..SourceRequest::default()
    }
}

fn answer(status: u16, body: Value, found: bool) -> Answer {
    Answer::Captured {
        response: HttpResponse {
            status,
            headers: vec![],
            body: body.to_string().into(),
        },
        found: vec![found],
    }
}

fn created() -> Answer {
    answer(
        201,
        json!({"token": null, "expires_at": "2026-09-21T15:13:20Z"}),
        true,
    )
}

/// Asks until there is no question left; the host of the last round tells what was made and kept.
fn run(
    mut answer: impl FnMut(&Question) -> Result<Answer, Fault>,
) -> (Result<Resolution, Fault>, Answers, Vec<Question>) {
    let mut asked: Vec<Asked> = Vec::new();
    loop {
        let host = Answers::new(asked.clone());
        let result = match resolve(&host, &request()) {
            Err(PluginError::Ask(question)) => {
                let answer = answer(&question);
                asked.push(Asked {
                    question: *question,
                    answer,
                });
                assert!(asked.len() < 32);
                continue;
            }
            Err(PluginError::Fault(fault)) => Err(fault),
            Ok(found) => Ok(found),
        };
        let questions = asked.into_iter().map(|asked| asked.question).collect();
        return (result, host, questions);
    }
}

fn key() -> SecretName {
    SecretName::At {
        pointer: "/spec/gitAuth/githubApp/privateKey".into(),
    }
}

fn password(found: Resolution) -> SecretName {
    match found.artifact {
        Artifact::GitTree {
            auth: Some(Credential::Basic { password, .. }),
            ..
        } => password.name().clone(),
        other => panic!("no token: {other:?}"),
    }
}

#[test]
fn a_token_is_exchanged_for_a_signed_jwt_and_kept() {
    let (found, host, questions) = run(|question| match question {
        Question::CacheGetSecret { .. } => Ok(Answer::NoSecret),
        Question::HttpCapture { .. } => Ok(created()),
        other => refs(other),
    });
    let captured = SecretName::Captured {
        exchange: 0,
        pointer: "/token".into(),
    };
    assert_eq!(password(found.unwrap()), captured);

    let Some(Question::HttpCapture {
        request: HttpRequest { method, url, .. },
        auth: Some(Credential::Bearer { token }),
        ..
    }) = questions
        .iter()
        .find(|question| matches!(question, Question::HttpCapture { .. }))
    else {
        panic!("nothing was exchanged: {questions:?}")
    };
    assert_eq!(
        (method.as_str(), url.as_str()),
        (
            "POST",
            "https://api.github.com/app/installations/7/access_tokens"
        )
    );
    assert_eq!(token.name(), &SecretName::Made { index: 1 });
    let recipes = host.recipes();
    let [
        Recipe::Sign {
            how,
            key: signer,
            payload,
        },
        Recipe::Join { parts },
    ] = recipes.as_slice()
    else {
        panic!("{recipes:?}")
    };
    assert_eq!((how, signer), (&Signature::Rs256, &key()));
    let signed = String::from_utf8(payload.clone()).unwrap();
    let (_, claims) = signed.split_once('.').unwrap();
    let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap();
    assert_eq!(
        claims,
        json!({"iat": 1_789_999_940, "exp": 1_790_000_540, "iss": "42"})
    );
    let signature = NamedPart::Secret {
        name: SecretName::Made { index: 0 },
        form: Form::Base64Url,
    };
    assert_eq!(
        parts.as_slice(),
        [
            NamedPart::Text(signed),
            NamedPart::Text(".".into()),
            signature
        ]
    );

    // An hour, less five minutes, for those who have the key.
    let puts = host.secret_puts();
    let [put] = puts.as_slice() else {
        panic!("{puts:?}")
    };
    assert_eq!(put.key, "github-app https://api.github.com 42 7");
    assert_eq!(
        (&put.origin, &put.value, put.ttl_ms),
        (&key(), &captured, 55 * 60_000)
    );
}

#[test]
fn a_kept_token_is_used_until_it_is_refused() {
    let kept = SecretName::Cached {
        key: "github-app https://api.github.com 42 7".into(),
        origin: Box::new(key()),
    };
    let (found, _, questions) = run(|question| match question {
        Question::CacheGetSecret { .. } => Ok(Answer::Secret),
        other => refs(other),
    });
    assert_eq!(password(found.unwrap()), kept);
    assert!(
        !questions
            .iter()
            .any(|it| matches!(it, Question::HttpCapture { .. }))
    );

    let denied = |class, reason: &str| Fault {
        class,
        reason: reason.into(),
        message: "no".into(),
        retry_after_ms: None,
    };
    let (found, host, questions) = run(|question| match question {
        Question::CacheGetSecret { .. } => Ok(Answer::Secret),
        Question::HttpCapture { .. } => Ok(created()),
        Question::GitRefs {
            auth: Some(Credential::Basic { password, .. }),
            ..
        } if *password.name() == kept => Err(denied(ErrorClass::Denied, "CredentialsRefused")),
        other => refs(other),
    });
    assert!(matches!(
        password(found.unwrap()),
        SecretName::Captured { .. }
    ));
    assert_eq!(host.secret_puts().len(), 1);
    assert_eq!(questions.len(), 7);

    // A new one that is refused is not tried a third time.
    let (found, ..) = run(|question| match question {
        Question::CacheGetSecret { .. } => Ok(Answer::Secret),
        Question::HttpCapture { .. } => Ok(created()),
        Question::GitRefs { .. } => Err(denied(ErrorClass::Denied, "CredentialsRefused")),
        other => refs(other),
    });
    assert_eq!(found.unwrap_err().reason, "CredentialsRefused");
}

#[test]
fn refusals_say_what_to_check() {
    let with = |reply: Answer| {
        let (found, ..) = run(move |question| match question {
            Question::CacheGetSecret { .. } => Ok(Answer::NoSecret),
            Question::HttpCapture { .. } => Ok(reply.clone()),
            other => refs(other),
        });
        found.unwrap_err()
    };
    let canary = json!({"message": "canary"});
    for (status, class, word) in [
        (401, ErrorClass::Denied, "privateKey"),
        (404, ErrorClass::Denied, "installationID"),
        (403, ErrorClass::Denied, "installation 7"),
        (500, ErrorClass::Unavailable, "500"),
        (201, ErrorClass::Unavailable, "201"),
    ] {
        let fault = with(answer(status, canary.clone(), false));
        assert_eq!(fault.class, class, "{status}");
        assert!(fault.message.contains(word), "{fault}");
        assert!(!fault.message.contains("canary"), "{fault}");
    }
    let later = Answer::Captured {
        response: HttpResponse {
            status: 403,
            headers: vec![("retry-after".into(), "60".into())],
            body: vec![],
        },
        found: vec![false],
    };
    let fault = with(later);
    assert_eq!(
        (fault.class, fault.retry_after_ms),
        (ErrorClass::Unavailable, Some(60_000))
    );
}

#[test]
fn where_the_api_is() {
    for (repository, api) in [
        ("https://github.com/o/r", Some("https://api.github.com")),
        ("https://me@GitHub.com/o/r", Some("https://api.github.com")),
        ("https://acme.ghe.com/o/r", Some("https://api.acme.ghe.com")),
        (
            "https://git.test:8443/o/r",
            Some("https://git.test:8443/api/v3"),
        ),
        (
            "http://127.0.0.1:80/o/r",
            Some("http://127.0.0.1:80/api/v3"),
        ),
        ("http://127.0.0.1.evil.test/o/r", None),
        ("http://git.test/o/r", None),
        ("https://", None),
        ("file:///o/r", None),
        ("ssh://git@github.com/o/r", None),
    ] {
        let found = github_app::api(repository).ok();
        assert_eq!(found.as_deref(), api, "{repository}");
    }
}
