//! What the handles that a guest holds stand for.

use windlass_sdk::{Credential, SecretName};

/// A secret, by name. Its value is not in the store.
#[derive(Debug, Clone)]
pub struct SecretHandle(pub SecretName);

/// A credential, by the names of its secrets.
#[derive(Debug, Clone)]
pub struct CredentialHandle(pub Credential);

/// Never made: no stream fails with an error of its own.
#[derive(Debug)]
pub struct IoError;

/// Always ready: the guest's clock does not move, so there is nothing to wait for.
#[derive(Debug)]
pub struct Pollable;

/// Standard input, empty.
#[derive(Debug)]
pub struct Input;

/// Standard output or standard error; both are captured together.
#[derive(Debug)]
pub struct Output;

/// Never made: there is no terminal.
#[derive(Debug)]
pub struct Terminal;
