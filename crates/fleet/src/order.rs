//! What a driver is ordered to do, and with which passwords.

use model::load::LoadSpec;
use model::load::drive::DriveOrder;
use wire::{Conninfo, Secret};

/// The order for a driver of this load, with what it needs to reach the server and must not be written down.
pub fn drive_order(load: LoadSpec, conninfo: &Conninfo) -> DriveOrder {
    let text = |secret: &Secret| secret.expose().to_string();
    let host_passwords: Vec<_> = conninfo.host_passwords.iter().map(|of| of.as_ref().map(text)).collect();
    let password = conninfo.password.as_ref().filter(|_| host_passwords.is_empty()).map(text);
    let root_certificates = conninfo.root_certificates.clone();
    let key_password = conninfo.key_password.as_ref().map(text);
    DriveOrder { host_passwords, key_password, root_certificates, ..DriveOrder::new(load, password) }
}
