//! A socket at which a standby finds something else than one of our servers, such as a relay that leads to it.

use std::os::unix::net::UnixListener;

use anyhow::{Context, Result};

use crate::cluster::Cluster;
use crate::process::socket::{SOCKET_PORT, SocketDir, socket_file};
use crate::running::upstream::Upstream;

/// A socket that is named as a server's, in a directory that only the server's user (and root) can enter. It is removed with its
/// directory when dropped.
#[derive(Debug)]
pub struct ServerSocket {
    dir: SocketDir,
}

impl ServerSocket {
    /// Makes one that the user of a cluster's server can reach, and listens on it.
    ///
    /// # Errors
    /// When there is no place for it.
    pub fn listen(cluster: &Cluster) -> Result<(ServerSocket, UnixListener)> {
        let dir = SocketDir::create(&cluster.account)?;
        let path = dir.path.join(socket_file(SOCKET_PORT));
        // Connecting takes the right to write to the socket, which its owner has.
        let listener = cluster
            .account
            .act(|| UnixListener::bind(&path))
            .with_context(|| format!("listen on `{}`", path.display()))?;
        Ok((ServerSocket { dir }, listener))
    }

    /// The socket, as a standby follows the server behind it.
    pub fn upstream(&self, name: &str, slot: Option<String>) -> Upstream {
        Upstream::over_socket(&self.dir.path, SOCKET_PORT, name, slot)
    }
}
