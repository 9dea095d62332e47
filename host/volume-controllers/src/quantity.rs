//! Quantities of Kubernetes as numbers of bytes.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Units of two, in the order of their size.
const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// Units of ten, with their exponents.
const DECIMAL: [(&str, i32); 10] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];

/// Returns a quantity in bytes, rounded up as in Kubernetes. `None` if it is not valid, or too large.
pub(crate) fn bytes(quantity: &Quantity) -> Option<i64> {
    let text = quantity.0.as_str();
    let end = text
        .find(|it: char| !it.is_ascii_digit() && it != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(end)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;

    let (two, mut ten) = unit_of(unit)?;
    ten -= i32::try_from(fraction.len()).ok()?;
    let scale = 10_i128.checked_pow(ten.unsigned_abs())?;
    let scaled = digits.checked_mul(two)?;
    let bytes = if ten < 0 {
        scaled / scale + i128::from(scaled % scale != 0)
    } else {
        scaled.checked_mul(scale)?
    };
    i64::try_from(bytes).ok()
}

/// Returns the factor of a unit, and the exponent of ten.
fn unit_of(unit: &str) -> Option<(i128, i32)> {
    if let Some(at) = BINARY.iter().position(|it| *it == unit) {
        return Some((1024_i128.checked_pow(u32::try_from(at).ok()? + 1)?, 0));
    }
    let mut decimal = DECIMAL.iter();
    if let Some((_, exponent)) = decimal.find(|(it, _)| *it == unit) {
        return Some((1, *exponent));
    }
    let exponent = unit.strip_prefix(['e', 'E'])?.parse().ok()?;
    (-18..=18).contains(&exponent).then_some((1, exponent))
}

/// Returns a number of bytes in the largest unit that needs no fraction (`bytesToQuantity` of
/// csi-provisioner).
pub(crate) fn of_bytes(bytes: i64) -> Quantity {
    let (mut number, mut unit) = (bytes, "");
    for larger in BINARY {
        if number == 0 || number % 1024 != 0 {
            break;
        }
        (number, unit) = (number / 1024, larger);
    }
    Quantity(format!("{number}{unit}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantity_is_a_number_of_bytes() {
        for (text, expected) in [
            ("0", Some(0)),
            ("1024", Some(1024)),
            ("1Ki", Some(1024)),
            ("5Gi", Some(5 << 30)),
            ("1.5Gi", Some(3 << 29)),
            ("8G", Some(8_000_000_000)),
            ("2Ei", Some(2 << 60)),
            ("8Ei", None),
            ("1e3", Some(1000)),
            ("1E3", Some(1000)),
            ("1E", Some(1_000_000_000_000_000_000)),
            ("1500m", Some(2)),
            ("1n", Some(1)),
            (".5Ki", Some(512)),
            ("", None),
            ("1 Gi", None),
            ("-1", None),
            ("Gi", None),
            ("1Zi", None),
            ("99999999999999999999999999999999999999999Ei", None),
        ] {
            assert_eq!(bytes(&Quantity(text.to_owned())), expected, "{text}");
        }
    }

    #[test]
    fn bytes_have_the_largest_unit() {
        for (bytes, expected) in [
            (0, "0"),
            (1, "1"),
            (1024, "1Ki"),
            (5 << 30, "5Gi"),
            (3 << 29, "1536Mi"),
            ((5 << 30) + 1, "5368709121"),
            (1 << 60, "1Ei"),
        ] {
            assert_eq!(of_bytes(bytes).0, expected);
        }
    }
}
