// The functions that activations are, one number at a time.
#pragma once

#include "kernels/dialect/dialect.h"

#ifdef KERNEL_BODIES

namespace kapitsa {

BODY float sigmoid(float x) { return 1.0f / (1.0f + exp(-x)); }

// x times its sigmoid; where exp(-x) is infinite, 0 and not NaN.
BODY float silu(float x) { return x * sigmoid(x); }

/// log(1 + x) for x >= 0, with the digits that 1 + x loses.
BODY float log_one_plus(float x) {
    const float sum = 1.0f + x;
    const float rest = sum - 1.0f;
    return rest == 0.0f ? x : log(sum) * (x / rest);
}

BODY float softplus(float x) { return x > 20.0f ? x : log_one_plus(exp(x)); }

/// The error function, right to 2e-7 of its value: the series around 0 where it is short, else one minus what
/// is left, by the continued fraction's rational form.
/// Source: Abramowitz and Stegun, 7.1.26 is too coarse for f32; this is W. J. Cody's method in single
/// precision.
BODY float erf(float x) {
    const float a = abs(x);
    if (a < 0.5f) {
        const float z = x * x;
        const float p = 3.209377589138469472562e3f +
                        z * (3.774852376853020208137e2f +
                             z * (1.138641541510501556495e2f +
                                  z * (3.161123743870565596947e0f + z * 1.857777061846031526730e-1f)));
        const float q = 2.844236833439170622273e3f +
                        z * (1.282616526077372275645e3f +
                             z * (2.440246379344441733056e2f + z * (2.360129095234412093499e1f + z)));
        return x * (p / q);
    }
    float tail = 0.0f;
    if (a < 4.0f) {
        const float p = 1.23033935479799725272e3f +
                        a * (2.05107837782607146532e3f +
                             a * (1.71204761263407058314e3f +
                                  a * (8.81952221241769090411e2f +
                                       a * (2.98635138197400131132e2f +
                                            a * (6.61191906371416294775e1f +
                                                 a * (8.88314979438837594118e0f +
                                                      a * (5.64188496988670089180e-1f +
                                                           a * 2.15311535474403846343e-8f)))))));
        const float q = 1.23033935480374942043e3f +
                        a * (3.43936767414372163696e3f +
                             a * (4.36261909014324715820e3f +
                                  a * (3.29079923573345962678e3f +
                                       a * (1.62138957456669018874e3f +
                                            a * (5.37181101862009857509e2f +
                                                 a * (1.17693950891312499305e2f +
                                                      a * (1.57449261107098347253e1f + a)))))));
        tail = exp(-a * a) * (p / q);
    }
    const float y = 1.0f - tail;
    return a != a ? x : x < 0.0f ? -y : y;
}

}  // namespace kapitsa

#endif
