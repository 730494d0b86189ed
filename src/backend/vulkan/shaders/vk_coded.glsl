/* vk_coded.glsl - rows of e4m3 codes with a scale each: num/e4m3.h. */
#ifndef VK_CODED_GLSL
#define VK_CODED_GLSL

/* The scale of a row whose largest magnitude has these bits; what is not finite is above all numbers. */
float coded_scale(uint most)
{
    if (most >= INF_BITS) return NAN_F;
    if (most == 0) return 1.0;
    uint e = (most + 0x1fffffu) >> 23;
    return uintBitsToFloat((e > 9 ? e - 8 : 1) << 23);
}
float coded_inverse(float scale)
{
    return is_nan(scale) ? scale : uintBitsToFloat((254u << 23) - floatBitsToUint(scale));
}
uint magnitude_bits(float x) { return floatBitsToUint(x) & 0x7fffffffu; }

#endif
