//! Which addresses may be contacted, whatever names lead to them.

use std::net::{IpAddr, Ipv6Addr};

use serde::{Deserialize, Serialize};

/// What is open and closed beyond the rules that always hold.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Reach {
    /// This machine's own addresses are open.
    pub loopback: bool,
    /// Closed: the API server's.
    pub denied: Vec<IpAddr>,
}

impl Reach {
    /// Whether an address, stated or resolved, may be contacted; else why not.
    pub fn check(&self, ip: IpAddr) -> Result<(), String> {
        // An IPv4 address in the clothes of IPv6 is an IPv4 address.
        let ip = match ip {
            IpAddr::V6(v6) => embedded(v6).unwrap_or(ip),
            IpAddr::V4(_) => ip,
        };
        if self.denied.contains(&ip) {
            return Err(format!("{ip} is the API server's"));
        }
        if ip.is_loopback() {
            return if self.loopback {
                Ok(())
            } else {
                Err(format!("{ip} is this machine itself"))
            };
        }
        let bad = match ip {
            // Link-local holds the metadata services of the clouds; all of 0/8 is this machine.
            IpAddr::V4(v4) => {
                v4.is_link_local() || v4.octets()[0] == 0 || v4.is_multicast() || v4.is_broadcast()
            }
            IpAddr::V6(v6) => {
                v6.is_unicast_link_local()
                    || v6.is_unspecified()
                    || v6.is_multicast()
                    // The IPv6 form of the metadata service at Amazon.
                    || v6.segments() == [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254]
            }
        };
        if bad {
            return Err(format!(
                "{ip} is a link-local, metadata or otherwise reserved address"
            ));
        }
        Ok(())
    }
}

/// The IPv4 address inside a mapped, compatible, NAT64 or 6to4 address.
fn embedded(v6: Ipv6Addr) -> Option<IpAddr> {
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Some(IpAddr::from([a, b, c, d]))
    };
    match v6.segments() {
        [0, 0, 0, 0, 0, 0xffff | 0xfffe, high, low] => v4(high, low),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => v4(high, low),
        [0x2002, high, low, ..] => v4(high, low),
        // ::1 and :: are no IPv4 addresses.
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => v4(high, low),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn closed_in_whatever_clothes() {
        let reach = Reach {
            loopback: false,
            denied: vec!["10.96.0.1".parse().unwrap()],
        };
        for text in [
            "10.96.0.1",
            "::ffff:10.96.0.1",
            "64:ff9b::10.96.0.1",
            "2002:0a60:0001::1",
            "::10.96.0.1",
            "127.0.0.1",
            "::1",
            "::",
            "0.0.0.1",
            "169.254.169.254",
            "64:ff9b::169.254.169.254",
            "fd00:ec2::254",
            "fe80::1",
            "224.0.0.1",
        ] {
            assert!(reach.check(text.parse().unwrap()).is_err(), "{text}");
        }
        for text in ["10.96.0.2", "140.82.112.3", "2606:50c0::1", "fd00::1"] {
            assert!(reach.check(text.parse().unwrap()).is_ok(), "{text}");
        }
        let open = Reach {
            loopback: true,
            ..reach
        };
        assert!(open.check("127.0.0.1".parse().unwrap()).is_ok());
        assert!(open.check("10.96.0.1".parse().unwrap()).is_err());
    }
}
