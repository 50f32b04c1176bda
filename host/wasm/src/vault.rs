//! Values of the secrets of one evaluation, and what the plugin makes of them.

use std::collections::HashMap;

use windlass_sdk::{Credential as Named, ErrorClass, Fault, NamedPart, Recipe, SecretName};
use zeroize::Zeroizing;

use crate::guest::round::Made;
use crate::make;
use crate::outside::Credential;

/// Values by name. They live here, beside the component, and nowhere else. What is made of them is computed when it is
/// first spent, so that a plugin that makes and never spends costs nothing.
#[derive(Default)]
pub struct Vault {
    values: HashMap<SecretName, Zeroizing<Vec<u8>>>,
    recipes: Vec<Recipe>,
}

impl Vault {
    /// Takes what the plugin sealed and made in this round, which began with all that it had in the rounds before.
    pub fn take(&mut self, made: Made) {
        let Made { sealed, recipes } = made;
        self.values
            .retain(|name, _| !matches!(name, SecretName::Made { .. }));
        self.recipes = recipes;
        for (index, value) in (0..).zip(sealed) {
            self.keep(SecretName::Sealed { index }, Zeroizing::new(value));
        }
    }

    /// Keeps a value under its name.
    pub fn keep(&mut self, name: SecretName, value: Zeroizing<Vec<u8>>) {
        self.values.insert(name, value);
    }

    /// A value as it is spent: text without the line break that Secrets made by hand often end in.
    ///
    /// # Errors
    /// A secret that was never read, or cannot be made.
    pub fn value(&mut self, name: &SecretName) -> Result<Zeroizing<Vec<u8>>, Fault> {
        if let SecretName::Made { index } = name
            && !self.values.contains_key(name)
        {
            let value = self.make(*index)?;
            self.keep(name.clone(), value);
        }
        let value = self.values.get(name).ok_or_else(unknown)?;
        let from_secret = matches!(name, SecretName::At { .. } | SecretName::KeyAt { .. });
        Ok(Zeroizing::new(match std::str::from_utf8(value) {
            Ok(text) if from_secret => text.trim_end_matches(['\n', '\r']).into(),
            _ => value.to_vec(),
        }))
    }

    // A recipe names only what was made before it, so this ends.
    fn make(&mut self, index: u32) -> Result<Zeroizing<Vec<u8>>, Fault> {
        let recipe = usize::try_from(index)
            .ok()
            .and_then(|index| self.recipes.get(index))
            .cloned()
            .ok_or_else(unknown)?;
        match recipe {
            Recipe::Derive {
                how,
                key,
                prefix,
                payload,
            } => Ok(make::derive(how, &self.value(&key)?, &prefix, &payload)),
            Recipe::Sign { how, key, payload } => make::sign(how, &self.value(&key)?, &payload),
            Recipe::Join { parts } => {
                let mut text = Zeroizing::new(String::new());
                for part in &parts {
                    match part {
                        NamedPart::Text(plain) => make::append(&mut text, plain)?,
                        NamedPart::Secret { name, form } => {
                            let piece = make::form(*form, &self.value(name)?)?;
                            make::append(&mut text, &piece)?;
                        }
                    }
                }
                Ok(Zeroizing::new(text.as_bytes().to_vec()))
            }
        }
    }

    /// A credential with its values.
    ///
    /// # Errors
    /// As [`Vault::value`], and a secret that is no text.
    pub fn credential(&mut self, named: &Named) -> Result<Credential, Fault> {
        Ok(match named {
            Named::Basic { username, password } => Credential::Basic {
                username: self.text(username.name())?,
                password: self.text(password.name())?,
            },
            Named::Bearer { token } => Credential::Bearer {
                token: self.text(token.name())?,
            },
            Named::Header { name, value } => Credential::Header {
                name: name.clone(),
                value: self.text(value.name())?,
            },
            Named::SshKey {
                private_key,
                passphrase,
                known_hosts,
            } => Credential::SshKey {
                private_key: self.text(private_key.name())?,
                passphrase: passphrase
                    .as_ref()
                    .map(|secret| self.text(secret.name()))
                    .transpose()?,
                known_hosts: known_hosts
                    .as_ref()
                    .map(|secret| self.text(secret.name()))
                    .transpose()?,
            },
        })
    }

    fn text(&mut self, name: &SecretName) -> Result<Zeroizing<String>, Fault> {
        let value = self.value(name)?;
        let text = std::str::from_utf8(&value).map_err(|_| no_text())?;
        Ok(Zeroizing::new(
            text.trim_end_matches(['\n', '\r']).to_owned(),
        ))
    }
}

/// A secret that should be text and is not.
pub fn no_text() -> Fault {
    fault(
        ErrorClass::Invalid,
        "SecretInvalid",
        "the secret is no text",
    )
}

fn unknown() -> Fault {
    fault(
        ErrorClass::Internal,
        "SecretUnknown",
        "a secret that was not asked for",
    )
}

fn fault(class: ErrorClass, reason: &str, message: &str) -> Fault {
    Fault {
        class,
        reason: reason.into(),
        message: message.into(),
        retry_after_ms: None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use windlass_sdk::{Derivation, Form, Secret, Signature};

    use super::*;

    const SECRET: SecretName = SecretName::Sealed { index: 0 };

    fn made(index: u32) -> SecretName {
        SecretName::Made { index }
    }

    fn vault(sealed: &[u8], recipes: Vec<Recipe>) -> Vault {
        let mut vault = Vault::default();
        vault.take(Made {
            sealed: vec![sealed.to_vec()],
            recipes,
        });
        vault
    }

    fn hmac(key: SecretName, prefix: &[u8], payload: &str) -> Recipe {
        Recipe::Derive {
            how: Derivation::HmacSha256,
            key,
            prefix: prefix.to_vec(),
            payload: payload.as_bytes().to_vec(),
        }
    }

    /// The worked example of Amazon's documentation for signing version 4: GET of an object, 24 May 2013.
    #[test]
    fn a_header_of_sigv4() {
        let to_sign = "AWS4-HMAC-SHA256\n20130524T000000Z\n20130524/us-east-1/s3/aws4_request\n\
            7344ae5b7ee6c3e7e6b0fe0640412a37625d1fbfff95c48bbb2dc43964946972";
        let mut vault = vault(
            b"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            vec![
                hmac(SECRET, b"AWS4", "20130524"),
                hmac(made(0), b"", "us-east-1"),
                hmac(made(1), b"", "s3"),
                hmac(made(2), b"", "aws4_request"),
                Recipe::Sign {
                    how: Signature::HmacSha256,
                    key: made(3),
                    payload: to_sign.into(),
                },
                Recipe::Join {
                    parts: vec![
                        NamedPart::Text("Signature=".into()),
                        NamedPart::Secret {
                            name: made(4),
                            form: Form::Hex,
                        },
                    ],
                },
            ],
        );
        let credential = vault.credential(&Named::Header {
            name: "Authorization".into(),
            value: Secret::named(made(5)),
        });
        let Credential::Header { value, .. } = credential.unwrap() else {
            panic!("no header")
        };
        assert_eq!(
            *value,
            "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
        );
    }

    #[test]
    fn sha256_takes_prefix_key_and_payload_in_this_order() {
        let recipe = Recipe::Derive {
            how: Derivation::Sha256,
            key: SECRET,
            prefix: b"a".to_vec(),
            payload: b"c".to_vec(),
        };
        let mut vault = vault(b"b", vec![recipe]);
        // sha256("abc")
        assert_eq!(
            hex::encode(vault.value(&made(0)).unwrap().as_slice()),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    #[test]
    fn texts_do_not_grow_without_end() {
        let twice = |name: SecretName| Recipe::Join {
            parts: vec![
                NamedPart::Secret {
                    name: name.clone(),
                    form: Form::Plain,
                },
                NamedPart::Secret {
                    name,
                    form: Form::Plain,
                },
            ],
        };
        let mut recipes = vec![twice(SECRET)];
        recipes.extend((0..63).map(|index| twice(made(index))));
        let mut vault = vault(&[b'x'; 1024], recipes);
        assert_eq!(vault.value(&made(5)).unwrap().len(), 64 << 10);
        assert_eq!(vault.value(&made(63)).unwrap_err().reason, "SecretTooLarge");
    }

    #[test]
    fn what_is_no_key_or_no_text_is_said_without_showing_it() {
        let sign = Recipe::Sign {
            how: Signature::Rs256,
            key: SECRET,
            payload: vec![],
        };
        let plain = Recipe::Join {
            parts: vec![NamedPart::Secret {
                name: SECRET,
                form: Form::Plain,
            }],
        };
        let mut vault = vault(b"canary\xff", vec![sign, plain]);
        for index in 0..2 {
            let fault = vault.value(&made(index)).unwrap_err();
            assert_eq!(fault.reason, "SecretInvalid");
            assert!(!fault.message.contains("canary"), "{fault}");
        }
        assert_eq!(vault.value(&made(2)).unwrap_err().reason, "SecretUnknown");
    }
}
