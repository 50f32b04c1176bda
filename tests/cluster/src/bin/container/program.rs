//! Turning into a program of the container, as its user.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::unistd::{Gid, Uid, chdir, setgroups, setresgid, setresuid};

use crate::launch::Process;
use crate::run;

/// Becomes the program. It comes back only with the reason why that failed.
pub fn become_it(process: &Process) -> String {
    let Process {
        argv,
        env,
        cwd,
        uid,
        gid,
        groups,
    } = process;
    let Some((name, arguments)) = argv.split_first() else {
        return "no command specified".to_owned();
    };
    if let Err(errno) = chdir(cwd) {
        return format!(
            "chdir to cwd ({:?}) set in config.json failed: {errno}",
            cwd
        );
    }
    if let Err(failure) = become_user(*uid, *gid, groups) {
        return failure;
    }
    // A change of the user clears it.
    if let Err(failure) = run::end_with_parent() {
        return failure;
    }
    let program = match find(name, env) {
        Ok(program) => program,
        Err(failure) => return failure,
    };
    let error = Command::new(&program)
        .arg0(name)
        .args(arguments)
        .env_clear()
        .envs(env.iter().map(|(name, value)| (name, value)))
        .exec();
    format!("exec {}: {error}", program.display())
}

fn become_user(uid: u32, gid: u32, groups: &[u32]) -> Result<(), String> {
    // Where this user is the only one there is, it stays whatever the pod asks for.
    if is_only_user() {
        return Ok(());
    }
    let groups: Vec<_> = groups.iter().copied().map(Gid::from_raw).collect();
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    setgroups(&groups).map_err(|errno| format!("groups: {errno}"))?;
    setresgid(gid, gid, gid).map_err(|errno| format!("group {gid}: {errno}"))?;
    setresuid(uid, uid, uid).map_err(|errno| format!("user {uid}: {errno}"))
}

/// In a user namespace made by somebody who is not root, one user exists.
pub fn is_only_user() -> bool {
    std::fs::read_to_string("/proc/self/setgroups").is_ok_and(|text| text.trim() == "deny")
}

fn find(name: &str, env: &[(String, String)]) -> Result<PathBuf, String> {
    if name.contains('/') {
        return match std::fs::metadata(name) {
            Err(_) => Err(format!(
                "exec: {name:?}: stat {name}: no such file or directory"
            )),
            Ok(found) if found.permissions().mode() & 0o111 == 0 => {
                Err(format!("exec: {name:?}: permission denied"))
            }
            Ok(_) => Ok(PathBuf::from(name)),
        };
    }
    let path = env.iter().find(|(name, _)| name == "PATH");
    let path = path.map_or("", |(_, value)| value.as_str());
    path.split(':')
        .map(|folder| Path::new(folder).join(name))
        .find(|file| {
            std::fs::metadata(file)
                .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        })
        .ok_or_else(|| format!("exec: {name:?}: executable file not found in $PATH"))
}
