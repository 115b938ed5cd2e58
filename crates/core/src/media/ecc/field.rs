//! Arithmetic in GF(2^m) by tables of powers and logarithms.

/// Field of 2^m elements, whose elements are the bit patterns below 2^m: polynomials over GF(2) in a root `a` of the
/// field's primitive polynomial. Zero has a logarithm too: one so large that all sums with it lead to zeros.
#[derive(Clone, Debug)]
pub(super) struct Field {
    order: usize,
    powers: Vec<u16>,
    logarithms: Vec<u16>,
}

impl Field {
    /// Creates the field of a primitive polynomial, whose leading coefficient is its highest bit.
    ///
    /// # Panics
    /// If the polynomial is not primitive, or its degree is above 13.
    pub(super) fn new(primitive: u16) -> Field {
        let degree = primitive.ilog2();
        assert!((2..=13).contains(&degree), "a field of 2^{degree} elements");
        let order = (1 << degree) - 1;
        let (mut powers, mut logarithms) = (vec![0; 4 * order + 1], vec![0; order + 1]);
        logarithms[0] = 2 * order as u16;
        let mut element = 1;
        for exponent in 0..order {
            assert!(exponent == 0 || element != 1, "{primitive:#x} is not primitive");
            (powers[exponent], powers[exponent + order]) = (element, element);
            logarithms[usize::from(element)] = exponent as u16;
            element <<= 1;
            if element >> degree != 0 {
                element ^= primitive;
            }
        }
        Field { order, powers, logarithms }
    }

    /// Returns the number of elements other than zero; `a` to this power is 1.
    pub(super) fn order(&self) -> usize {
        self.order
    }

    /// Returns `a` to the power of any `exponent`.
    pub(super) fn power(&self, exponent: usize) -> u16 {
        self.powers[exponent % self.order]
    }

    /// Returns the logarithm of an element that is not zero.
    pub(super) fn logarithm(&self, element: u16) -> usize {
        debug_assert_ne!(element, 0, "zero is no power");
        usize::from(self.logarithms[usize::from(element)])
    }

    #[inline]
    pub(super) fn multiply(&self, left: u16, right: u16) -> u16 {
        let sum = usize::from(self.logarithms[usize::from(left)]) + usize::from(self.logarithms[usize::from(right)]);
        self.powers[sum]
    }

    /// Returns the quotient by a divisor that is not zero.
    pub(super) fn divide(&self, dividend: u16, divisor: u16) -> u16 {
        self.multiply(dividend, self.power(self.order - self.logarithm(divisor)))
    }

    /// Returns the coefficients, lowest first, of the polynomial over GF(2) of least degree that has `a^exponent` as a
    /// root.
    pub(super) fn minimal_polynomial(&self, exponent: usize) -> Vec<bool> {
        let mut product = vec![1];
        let mut conjugate = exponent % self.order;
        loop {
            product = self.times_root(&product, self.power(conjugate));
            conjugate = conjugate * 2 % self.order;
            if conjugate == exponent % self.order {
                break;
            }
        }
        debug_assert!(product.iter().all(|&coefficient| coefficient <= 1), "conjugates give binary coefficients");
        product.into_iter().map(|coefficient| coefficient == 1).collect()
    }

    /// Returns `polynomial`, lowest coefficient first, times (x + root).
    fn times_root(&self, polynomial: &[u16], root: u16) -> Vec<u16> {
        let mut product = vec![0; polynomial.len() + 1];
        for (degree, &coefficient) in polynomial.iter().enumerate() {
            product[degree + 1] ^= coefficient;
            product[degree] ^= self.multiply(coefficient, root);
        }
        product
    }
}
