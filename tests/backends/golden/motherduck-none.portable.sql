LOAD ducklake;
LOAD motherduck;
ATTACH 'md:';
CREATE DATABASE IF NOT EXISTS "shop_lake" (TYPE DUCKLAKE);
USE "shop_lake";
