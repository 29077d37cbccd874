//! The thread that scrapes an exporter on the database's machine: the verbatim text, and a tick of source `Remote`.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Result, ensure};
use model::telemetry::reading::TickSource;

use crate::Observation;
use crate::gather::{Backwards, Gather, INSTANCE_BYTES_MAX};
use crate::poll;
use crate::remote::exposition::{self, CounterReading, Mapping};
use crate::remote::service::Service;
use crate::schedule::{ObserverControl, unix_ns};
use crate::sink::Out;

/// Reported as missing if the exporter does not answer.
const SOURCE: &str = "remote";
/// More than node_exporter and postgres_exporter return for a large machine.
const SCRAPE_BYTES_MAX: u64 = 8 << 20;
/// More devices than a machine has.
const SUMS_MAX: usize = 10_000;

/// An exporter, and how its metrics are named.
#[derive(Debug, Clone)]
pub struct Exporter {
    service: Service,
    mapping: Mapping,
}

impl Exporter {
    /// An exporter under its address.
    pub fn new(service: Service, mapping: Mapping) -> Exporter {
        Exporter { service, mapping }
    }
}

pub(crate) struct RemoteWatch {
    exporter: Exporter,
    gather: Gather,
    /// What rates per second add up to so far, by metric and instance.
    sums: BTreeMap<(&'static str, String), f64>,
    last_scrape: Option<Instant>,
    out: Out,
}

impl RemoteWatch {
    pub(crate) fn new(exporter: Exporter, out: Out) -> RemoteWatch {
        let gather = Gather::new(Backwards::Reset);
        RemoteWatch { exporter, gather, sums: BTreeMap::new(), last_scrape: None, out }
    }

    /// Scrapes in each tick until it is stopped, and then once more.
    pub(crate) fn run(mut self, control: &ObserverControl, tick_ns: u64) {
        let out = self.out.clone();
        poll::run(TickSource::Remote, control, tick_ns, &out, || self.read().then(|| self.gather.take().0));
    }

    /// Scrapes once. A missing source is reported once; the next tick is longer.
    fn read(&mut self) -> bool {
        match self.scrape() {
            Ok(()) => true,
            Err(error) => {
                self.out.unavailable(SOURCE, format!("{}: {error:#}", self.exporter.service));
                false
            }
        }
    }

    fn scrape(&mut self) -> Result<()> {
        let Exporter { service, mapping } = &self.exporter;
        let answer = service.scrape(SCRAPE_BYTES_MAX)?;
        let hint = match answer.status {
            401 | 403 => ": it wants another user, password or token ([target.exporter])",
            _ => "",
        };
        ensure!(answer.status == 200, "the answer has status {}{hint}", answer.status);
        // A line cut off by the end of the connection would yield a wrong number.
        ensure!(answer.body.ends_with('\n'), "the answer ended within a line");
        let now = Instant::now();
        let since_s = self.last_scrape.replace(now).map_or(0.0, |last| (now - last).as_secs_f64());
        for CounterReading { metric, instance, value, per_second } in
            exposition::readings(&answer.body, mapping)
        {
            let mut value = value;
            if per_second {
                let key = (metric, instance.clone());
                let is_full = self.sums.len() >= SUMS_MAX && !self.sums.contains_key(&key);
                if is_full || instance.len() > INSTANCE_BYTES_MAX || !value.is_finite() {
                    continue;
                }
                let sum = self.sums.entry(key).or_default();
                *sum += value.max(0.0) * since_s;
                value = *sum;
            }
            self.gather.put_said(metric, &instance, value);
        }
        self.out.send(Observation::Scrape { end_unix_ns: unix_ns(), text: answer.body });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::path::Path;
    use std::sync::Arc;

    use model::experiment::target::ExporterMetric;
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use rustls::{ServerConfig, ServerConnection, StreamOwned};

    use super::*;
    use crate::http::Address;
    use crate::remote::service::AskerIdentity;

    /// Serves HTTPS on 127.0.0.1 with a certificate for that address, to whoever says `u:s3cret`. Returns its port and its
    /// authority's certificate.
    fn serve() -> (u16, String) {
        let authority_key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = params.self_signed(&authority_key).unwrap().pem();
        let issuer = Issuer::new(params, authority_key);
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(vec!["127.0.0.1".to_string()]).unwrap().signed_by(&key, &issuer).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![CertificateDer::from_pem_slice(certificate.pem().as_bytes()).unwrap()],
                PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap(),
            )
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let config = Arc::new(config);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
                let mut stream = StreamOwned::new(connection, stream.unwrap());
                let (mut request, mut part) = (Vec::new(), [0; 4096]);
                while !request.ends_with(b"\r\n\r\n") {
                    match stream.read(&mut part) {
                        Ok(n @ 1..) => request.extend_from_slice(&part[..n]),
                        // A client that does not trust us.
                        Ok(0) | Err(_) => break,
                    }
                }
                let request = String::from_utf8(request).unwrap();
                let is_let_in = request.contains("\r\nAuthorization: Basic dTpzM2NyZXQ=\r\n");
                let answer = if is_let_in {
                    "HTTP/1.0 200 OK\r\n\r\nrds_free_bytes 5\n"
                } else {
                    "HTTP/1.0 401 Unauthorized\r\n\r\n"
                };
                stream.write_all(answer.as_bytes()).ok();
                stream.conn.send_close_notify();
                stream.flush().ok();
            }
        });
        (port, authority)
    }

    #[test]
    fn an_exporter_with_tls_and_a_password_is_read_if_both_are_right() {
        let (port, authority) = serve();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), authority).unwrap();
        let metrics = [("memory.available".to_string(), ExporterMetric::Name("rds_free_bytes".to_string()))];
        let mapping = Mapping::new(&metrics.into()).unwrap();
        let scrape = |host: &str, ca: Option<&Path>, password: &str| {
            let address = Address::parse(&format!("https://{host}:{port}/metrics")).unwrap();
            let identity = AskerIdentity::Password { user: "u", password };
            let service = Service::new(address, ca, &identity).unwrap();
            let exporter = Exporter::new(service, mapping.clone());
            let mut watch = RemoteWatch::new(exporter, Out::new(Box::new(|_| {})));
            watch.scrape().map(|()| watch.gather.take().0).map_err(|error| format!("{error:#}"))
        };
        let ca = Some(file.path());
        assert_eq!(scrape("127.0.0.1", ca, "s3cret").unwrap()["remote.memory.available"], 5.0);
        for (host, ca, password, expected) in [
            ("127.0.0.1", None, "s3cret", "certificate"),
            ("localhost", ca, "s3cret", "certificate"),
            ("127.0.0.1", ca, "wrong", "status 401: it wants another user, password or token"),
        ] {
            let error = scrape(host, ca, password).unwrap_err();
            assert!(error.contains(expected) && !error.contains(password), "{error}");
        }
    }
}
