LOAD ducklake;
LOAD motherduck;
LOAD httpfs;
ATTACH 'md:';
CREATE DATABASE IF NOT EXISTS "shop_lake" (TYPE DUCKLAKE, DATA_PATH 'r2://acme/shop/');
USE "shop_lake";
