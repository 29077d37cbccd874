//! Roles and privileges: what others than superusers may do, or be allowed to.

use super::{Feature, since};

/// Roles for monitoring, `pg_monitor` and its parts; before them, only a superuser sees others' sessions and all settings (10:
/// "Add default monitoring roles").
pub const MONITORING_ROLES: Feature = since(100_000);
/// The right to read files of the data directory may be granted (11).
pub const READING_FILES: Feature = since(110_000);
/// Trusted extensions, which whoever may create objects in a database creates (13: "Allow extensions to be specified as trusted").
pub const TRUSTED_EXTENSIONS: Feature = since(130_000);
/// Single parameters may be granted, to SET and to ALTER SYSTEM (15: "Allow GRANT to grant permissions to change ... server variables").
pub const PARAMETERS: Feature = since(150_000);
/// The role `pg_checkpoint` (15: "Add predefined role `pg_checkpoint`").
pub const CHECKPOINT_ROLE: Feature = since(150_000);
/// The privilege MAINTAIN, which VACUUM and ANALYZE need (17: "Add per-table GRANT permission MAINTAIN").
pub const MAINTAIN: Feature = since(170_000);
/// Passwords by SCRAM; before, by MD5 (10: "Add SCRAM-SHA-256 support").
pub const SCRAM: Feature = since(100_000);
