//! Roles and privileges: what others than superusers may do, or be allowed to.

use super::{Feature, since};

/// Roles for monitoring, `pg_monitor` and its parts; before them, only a superuser sees others' sessions and all settings (10).
pub const MONITORING_ROLES: Feature = since(100_000);
/// The right to read files of the data directory may be granted (11).
pub const READING_FILES: Feature = since(110_000);
/// Trusted extensions, which whoever may create objects in a database creates (13).
pub const TRUSTED_EXTENSIONS: Feature = since(130_000);
/// Single parameters may be granted, to SET and to ALTER SYSTEM (15).
pub const PARAMETERS: Feature = since(150_000);
/// The role `pg_checkpoint` (15).
pub const CHECKPOINT_ROLE: Feature = since(150_000);
/// The privilege MAINTAIN, which VACUUM and ANALYZE need (17).
pub const MAINTAIN: Feature = since(170_000);
/// Passwords by SCRAM; before, by MD5 (10).
pub const SCRAM: Feature = since(100_000);
