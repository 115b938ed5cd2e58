//! Arithmetic in the Galois field GF(2^m) by tables of powers and logarithms.

/// Galois field of 2^m elements. Each element is a bit pattern below 2^m: a polynomial over GF(2) in a root `a` of the
/// field's primitive polynomial. Zero has a logarithm too, so large that every sum with it leads to zero.
#[derive(Clone, Debug)]
pub(super) struct Field {
    order: usize,
    powers: Vec<u16>,
    logarithms: Vec<u16>,
}

impl Field {
    /// Creates the Galois field of a primitive polynomial over GF(2), whose highest bit is the leading coefficient.
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

    /// Returns the number of field elements other than zero, which is the order of the primitive element `a`.
    pub(super) fn order(&self) -> usize {
        self.order
    }

    /// Returns the primitive element `a` of the field to the power of `exponent`, which may exceed the order.
    pub(super) fn power(&self, exponent: usize) -> u16 {
        self.powers[exponent % self.order]
    }

    /// Returns the discrete logarithm of a field element: the exponent of the primitive element `a` that gives it. The
    /// element must not be zero.
    pub(super) fn logarithm(&self, element: u16) -> usize {
        debug_assert_ne!(element, 0, "zero is no power");
        usize::from(self.logarithms[usize::from(element)])
    }

    #[inline]
    pub(super) fn multiply(&self, left: u16, right: u16) -> u16 {
        let sum = usize::from(self.logarithms[usize::from(left)]) + usize::from(self.logarithms[usize::from(right)]);
        self.powers[sum]
    }

    /// Returns the quotient of two field elements; the divisor must not be zero.
    pub(super) fn divide(&self, dividend: u16, divisor: u16) -> u16 {
        self.multiply(dividend, self.power(self.order - self.logarithm(divisor)))
    }

    /// Returns the minimal polynomial of `a^exponent`: the polynomial over GF(2) of least degree with this root.
    /// Coefficients are in the order of exponents, lowest first.
    pub(super) fn minimal_polynomial(&self, exponent: usize) -> Vec<bool> {
        let mut product = vec![1];
        let mut conjugate = exponent % self.order;
        loop {
            product = self.multiply_by_root(&product, self.power(conjugate));
            conjugate = conjugate * 2 % self.order;
            if conjugate == exponent % self.order {
                break;
            }
        }
        debug_assert!(product.iter().all(|&coefficient| coefficient <= 1), "conjugates give binary coefficients");
        product.into_iter().map(|coefficient| coefficient == 1).collect()
    }

    /// Returns the product of `polynomial` and (x + root); coefficients are in the order of exponents, lowest first.
    fn multiply_by_root(&self, polynomial: &[u16], root: u16) -> Vec<u16> {
        let mut product = vec![0; polynomial.len() + 1];
        for (degree, &coefficient) in polynomial.iter().enumerate() {
            product[degree + 1] ^= coefficient;
            product[degree] ^= self.multiply(coefficient, root);
        }
        product
    }
}
