//! Disks of cloud machines whose data is lost when the machine stops: EC2's instance store, GCP's local SSD, Azure's temporary and local
//! disks. Recognized by the model that the disk tells, and by the vendor of the machine, so that no other disk of that name is meant.
//!
//! Sources: amazon-ec2-utils (`ebsnvme`), GCP's guest-configs (`65-gce-disk-naming.rules`), azure-vm-utils and WALinuxAgent
//! (`80-azure-disk.rules`, `66-azure-storage.rules`). What is not recognized is unknown: EC2's Xen machines name no model.

use std::fs;
use std::path::{Path, PathBuf};

/// Vendor of the machine, how models of such a disk begin or what they are in whole, and what it is.
const MODELS: [(&str, Model, &str); 6] = [
    ("Amazon EC2", Model::Begins("Amazon EC2 NVMe Instance Storage"), "EC2 instance store"),
    ("Google", Model::Is("nvme_card"), "GCP local SSD"),
    ("Google", Model::Numbered("nvme_card"), "GCP local SSD"),
    ("Google", Model::Begins("EphemeralDisk"), "GCP local SSD"),
    ("Microsoft Corporation", Model::Begins("Microsoft NVMe Direct Disk"), "Azure local NVMe disk"),
    ("Microsoft Corporation", Model::Begins("Microsoft Temporary Disk"), "Azure temporary disk"),
];

#[derive(Debug, Clone, Copy)]
enum Model {
    Is(&'static str),
    Begins(&'static str),
    /// With a number at its end; GCP's network disks end in `-pd`.
    Numbered(&'static str),
}

impl Model {
    fn matches(self, model: &str) -> bool {
        match self {
            Model::Is(whole) => model == whole,
            Model::Begins(start) => model.starts_with(start),
            Model::Numbered(start) => model
                .strip_prefix(start)
                .is_some_and(|rest| !rest.is_empty() && rest.chars().all(|c| c.is_ascii_digit())),
        }
    }
}

/// Beginning of the VMBus identifier of Azure's temporary disk on a machine of the first generation; on one of the second it is unit 1 of
/// this controller, whose unit 0 is the disk of the system.
const AZURE_TEMPORARY: &str = "{00000000-0001-";
const AZURE_CONTROLLER: &str = "{f8b3781a-1e82-4818-a1c3-63d806ec15bb}";

/// Which kind of disk that is lost with the machine these devices are or contain: the first one found.
pub(crate) fn lost_with_machine(sys: &Path, devices: &[String]) -> Option<String> {
    let vendor = line(&sys.join("class/dmi/id/sys_vendor"))?;
    devices.iter().find_map(|device| {
        let model = line(&sys.join("block").join(device).join("device/model")).unwrap_or_default();
        let by_model = MODELS.iter().find(|(of, known, _)| vendor == *of && known.matches(&model));
        let kind = by_model.map(|(_, _, kind)| *kind).or_else(|| {
            let is_azure = vendor == "Microsoft Corporation" && is_azure_temporary(sys, device);
            is_azure.then_some("Azure temporary disk")
        })?;
        Some(format!("{device}: {kind}"))
    })
}

/// Whether a SCSI disk hangs on the controller of the temporary disk.
fn is_azure_temporary(sys: &Path, device: &str) -> bool {
    let Ok(path) = fs::canonicalize(sys.join("block").join(device).join("device")) else { return false };
    let is_unit_1 = path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(":1"));
    let ids = path.ancestors().filter_map(|dir: &Path| line(&PathBuf::from(dir).join("device_id")));
    ids.into_iter().any(|id| id.starts_with(AZURE_TEMPORARY) || (id == AZURE_CONTROLLER && is_unit_1))
}

fn line(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_string()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn write(path: PathBuf, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn disks_that_go_with_their_machine_are_recognized_by_model_and_vendor() {
        let check = |vendor: &str, model: &str, expected: Option<&str>| {
            let sys = tempfile::tempdir().unwrap();
            write(sys.path().join("class/dmi/id/sys_vendor"), &format!("{vendor}\n"));
            write(sys.path().join("block/nvme1n1/device/model"), &format!("{model}   \n"));
            let found = lost_with_machine(sys.path(), &["md0".to_string(), "nvme1n1".to_string()]);
            assert_eq!(found.as_deref(), expected, "{vendor}, {model}");
        };
        check("Amazon EC2", "Amazon EC2 NVMe Instance Storage", Some("nvme1n1: EC2 instance store"));
        check("Amazon EC2", "Amazon Elastic Block Store", None);
        check("Google", "nvme_card", Some("nvme1n1: GCP local SSD"));
        check("Google", "nvme_card12", Some("nvme1n1: GCP local SSD"));
        check("Google", "nvme_card-pd", None);
        check("Google", "EphemeralDisk", Some("nvme1n1: GCP local SSD"));
        check("Google", "PersistentDisk", None);
        check(
            "Microsoft Corporation",
            "Microsoft NVMe Direct Disk v2",
            Some("nvme1n1: Azure local NVMe disk"),
        );
        check("Microsoft Corporation", "MSFT NVMe Accelerator v1.0", None);
        check("QEMU", "Amazon EC2 NVMe Instance Storage", None);
        assert_eq!(lost_with_machine(Path::new("/nowhere"), &["sda".to_string()]), None);
    }

    #[test]
    fn azures_temporary_disk_is_recognized_by_its_controller() {
        let check = |id: &str, address: &str, expected: bool| {
            let sys = tempfile::tempdir().unwrap();
            write(sys.path().join("class/dmi/id/sys_vendor"), "Microsoft Corporation\n");
            let controller = sys.path().join("devices/vmbus/controller");
            write(controller.join("device_id"), &format!("{id}\n"));
            let disk = controller.join("host0/target0:0:0").join(address);
            write(disk.join("model"), "Virtual Disk\n");
            fs::create_dir_all(sys.path().join("block/sdb")).unwrap();
            symlink(&disk, sys.path().join("block/sdb/device")).unwrap();
            let found = lost_with_machine(sys.path(), &["sdb".to_string()]);
            assert_eq!(found.as_deref(), expected.then_some("sdb: Azure temporary disk"), "{id} {address}");
        };
        check("{00000000-0001-8899-0000-000000000000}", "5:0:1:0", true);
        check("{00000000-0000-8899-0000-000000000000}", "2:0:0:0", false);
        check("{f8b3781a-1e82-4818-a1c3-63d806ec15bb}", "0:0:0:1", true);
        check("{f8b3781a-1e82-4818-a1c3-63d806ec15bb}", "0:0:0:0", false);
    }
}
