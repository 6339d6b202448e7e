//! Whether this user may open the GPUs.

use std::fs::{self, File, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rocm_toolchain::topology::Node;

use super::place::Place;
use super::report::{Finding, State};

/// Read and write, for the owner; shifted by 3 and 6 for the group and others.
const READ_WRITE: u32 = 0o600;

/// `/dev/kfd`, and the render node of each GPU; where one GPU works, the others' are no trouble.
pub(super) fn amd(
    place: &Place<'_>,
    gpus: &[Node],
    works: Option<&Node>,
    findings: &mut Vec<Finding>,
) {
    let render = |gpu: &Node| {
        let is_needed = works.is_none_or(|node| node == gpu);
        (format!("dev/dri/renderD{}", gpu.render_minor), is_needed)
    };
    let names = [("dev/kfd".to_string(), true)].into_iter();
    let user = User::of(place.root);
    for (name, is_needed) in names.chain(gpus.iter().map(render)) {
        let path = place.root.join(&name);
        let found = match fs::metadata(&path) {
            Ok(metadata) => access(place.root, &name, &metadata, &user),
            // The driver's line says so.
            Err(_) if name == "dev/kfd" => continue,
            Err(error) => Finding::wrong(
                "permission",
                format!("/{name}: {error}"),
                "in a container: start it with --device=/dev/dri",
            ),
        };
        findings.push(match is_needed || found.state == State::Good {
            true => found,
            false => Finding::note("permission", found.found, ""),
        });
    }
}

fn access(root: &Path, name: &str, metadata: &Metadata, user: &User) -> Finding {
    let group = group_name(root, metadata.gid());
    if !user.may_read_and_write(metadata) {
        return Finding::wrong(
            "permission",
            format!("/{name} may not be opened by this user, who is not in its group {group}"),
            format!(
                "sudo usermod -a -G render,video $USER, and log in again; in a container: --group-add {}",
                metadata.gid()
            ),
        );
    }
    // Opening says what modes do not: a container's list of devices, security modules.
    match File::options().read(true).write(true).open(root.join(name)) {
        Ok(_) => Finding::good("permission", format!("/{name} can be opened")),
        Err(error) => Finding::wrong(
            "permission",
            format!("/{name}: {error}, though its mode allows it"),
            format!("in a container: start it with --device=/{name}"),
        ),
    }
}

/// The groups and the number of this process's user.
struct User {
    uid: u32,
    groups: Vec<u32>,
}

impl User {
    /// As the kernel tells them. Where it does not, the user is nobody, and opening the files tells the rest.
    fn of(root: &Path) -> Self {
        let status = fs::read_to_string(root.join("proc/self/status")).unwrap_or_default();
        let numbers = |key: &str| -> Vec<u32> {
            let line = status.lines().find_map(|line| line.strip_prefix(key));
            let words = line.unwrap_or_default().split_whitespace();
            words.filter_map(|word| word.parse().ok()).collect()
        };
        // Real, effective, saved, file system's.
        let mut groups = numbers("Groups:");
        groups.extend(numbers("Gid:").get(1));
        Self {
            uid: numbers("Uid:").get(1).copied().unwrap_or(u32::MAX),
            groups,
        }
    }

    fn may_read_and_write(&self, file: &Metadata) -> bool {
        let shift = match () {
            () if self.uid == 0 => return true,
            () if self.uid == file.uid() => 0,
            () if self.groups.contains(&file.gid()) => 3,
            () => 6,
        };
        let needed = READ_WRITE >> shift;
        file.mode() & needed == needed
    }
}

/// A group's name, or its number where `/etc/group` has none, as in containers.
fn group_name(root: &Path, gid: u32) -> String {
    let text = fs::read_to_string(root.join("etc/group")).unwrap_or_default();
    let mut groups = text.lines().map(|line| line.split(':').collect::<Vec<_>>());
    groups
        .find(|fields| fields.get(2).is_some_and(|field| field.parse() == Ok(gid)))
        .and_then(|fields| fields.first().map(|name| name.to_string()))
        .unwrap_or_else(|| gid.to_string())
}
