//! What OpenSSH's client means, from its words.

use crate::error::FetchError;

/// The failure that the program's log and the other side's words tell of, else `otherwise`.
pub(super) fn explain(log: &str, remote: &str, host: &str, otherwise: FetchError) -> FetchError {
    let host = host.to_owned();
    let says = |needle: &str| log.contains(needle);
    if says("HOST IDENTIFICATION HAS CHANGED") || says("REVOKED HOST KEY") {
        return FetchError::HostKeyChanged { host };
    }
    if says("Host key verification failed") || says("host key is known for") {
        return FetchError::HostKeyUnknown { host };
    }
    if says("Load key ") && !says("Authenticated to ") {
        return FetchError::CredentialInvalid {
            detail:
                "ssh cannot use the private key: it is damaged, or of a kind that it does not know"
                    .to_owned(),
        };
    }
    if says("Permission denied (") || says("Too many authentication failures") {
        return FetchError::CredentialsRefused { host };
    }
    if says("No user exists for uid") {
        return FetchError::WorkerFailed {
            detail: "ssh wants the user of this process to have an entry in /etc/passwd".to_owned(),
        };
    }
    if !says("Authenticated to ") {
        // Nothing was said to Git yet: whatever it was, it was the connection.
        return match line(log) {
            Some(detail) => FetchError::Unreachable { host, detail },
            None => otherwise,
        };
    }
    if let FetchError::BadAnswer { .. } = &otherwise {
        let missing = [
            "not appear to be a git repository",
            "not found",
            "does not exist",
            "no such",
        ];
        let words = remote.to_ascii_lowercase();
        if missing.iter().any(|needle| words.contains(needle)) {
            return FetchError::RepositoryNotFound { host };
        }
        if let Some(detail) = line(remote) {
            return FetchError::BadAnswer { host, detail };
        }
    }
    otherwise
}

/// The last line that says something, fit to be shown.
fn line(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    Some(line.chars().filter(|c| !c.is_control()).take(300).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(log: &str, remote: &str) -> String {
        let otherwise = FetchError::BadAnswer {
            host: "h".to_owned(),
            detail: "end of file".to_owned(),
        };
        explain(log, remote, "h", otherwise).reason()
    }

    #[test]
    fn words_of_the_program() {
        let authenticated = "Authenticated to 10.0.0.7 ([10.0.0.7]:22) using \"publickey\".";
        for (log, remote, expected) in [
            (
                "No ED25519 host key is known for h and you have requested strict checking.\r\nHost key verification failed.",
                "",
                "HostKeyUnknown",
            ),
            (
                "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\r\nHost key verification failed.",
                "",
                "HostKeyChanged",
            ),
            (
                "git@10.0.0.7: Permission denied (publickey).",
                "",
                "CredentialsRefused",
            ),
            (
                "Load key \"ssh.key\": error in libcrypto\r\ngit@h: Permission denied (publickey).",
                "",
                "CredentialInvalid",
            ),
            (
                "ssh: connect to host 10.0.0.7 port 22: Connection refused",
                "",
                "Unreachable",
            ),
            (
                "kex_exchange_identification: read: Connection reset by peer",
                "",
                "Unreachable",
            ),
            (
                authenticated,
                "ERROR: Repository not found.",
                "RepositoryNotFound",
            ),
            (
                authenticated,
                "fatal: '/x' does not appear to be a git repository",
                "RepositoryNotFound",
            ),
            (authenticated, "come back later", "BadAnswer"),
            (authenticated, "", "BadAnswer"),
            ("", "", "BadAnswer"),
        ] {
            assert_eq!(reason(log, remote), expected, "{log} {remote}");
        }
    }
}
